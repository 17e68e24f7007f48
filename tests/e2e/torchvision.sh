#!/usr/bin/env bash
# Beside torchvision, where it is installed: three of its networks by way of from_pytorch.py, and the networks that come
# with kas-gpu, which must take torchvision's weights and give its logits.
set -eu
. tests/e2e/pytorch.bash
"$python" -c 'import torchvision' 2>/dev/null ||
    { echo "SKIPPED: no torchvision (Debian: apt-get install python3-torchvision)"; exit 77; }

convert torchvision.models:mobilenet_v3_small '{"num_classes": 10}' 3x33x33
convert torchvision.models:squeezenet1_1 '{"num_classes": 10}' 3x40x33
convert torchvision.models:resnet18 '{"num_classes": 10}' 3x32x32

for net in ${NETWORKS:-mobilenet_v2 mnasnet1_0 regnet_x_800mf}; do # also resnet18 resnet34 densenet161 densenet169 densenet201 vgg16_bn
    same_logits $net:small=0 torchvision.models:$net '{"num_classes": 10}' 3x65x65
done
echo "ok: networks of torchvision"
