#!/usr/bin/env bash
# The device's loss and gradients at 20 training steps of ResNet-20 against PyTorch in double.
exec bash "$(dirname "$0")/peer_resnet20.sh" device
