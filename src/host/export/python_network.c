/* Writes network.py: the network's forward pass, the reader of weights, and the check. */
#include "host/export/python.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* The texts that differ between a network with and without kernels. */
static const char replaced_title[] =
    " with the kernel%s of kernel%s.py in place of %d convolutions";
static const char here_text[] = "sys.path.insert(0, HERE)\n";
static const char import_text[] =
    "from kernel%s import Kernel%s%s  # noqa: E402  (the file beside this one)\n";

static const char title_text[] =
    ".\n\n"
    "    import network\n"
    "    model = network.load()           # weights.safetensors beside this file, evaluation mode\n"
    "    logits = model(images)           # [n, %d, %d, %d], normalised -> [n, %d]\n\n"
    "    python3 network.py --check       # the same logits as kas-gpu's for check.safetensors?\n"
    "\"\"\"\n"
    "import json\n"
    "import os\n"
    "import struct\n"
    "import sys\n\n"
    "import torch\n"
    "import torch.nn.functional as F\n"
    "from torch import nn\n\n"
    "HERE = os.path.dirname(os.path.abspath(__file__))\n";

static const char parts_text[] =
    "\n\nclass Part(nn.Module):\n"
    "    \"\"\"Layers under one name; theirs may be numbers, or attributes of a module.\"\"\"\n\n"
    "    def __init__(self, /, **layers):\n"
    "        super().__init__()\n"
    "        for name, layer in layers.items():\n"
    "            self[name] = layer\n\n"
    "    def __getitem__(self, name):\n"
    "        return self._modules[str(name)]\n\n"
    "    def __setitem__(self, name, layer):\n"
    "        self._modules[name] = layer  # add_module refuses names such as train\n\n\n"
    "def shortcut(x, channels, stride):\n"
    "    \"\"\"Every stride-th pixel; the new channels are zero, half of them in front (He et al. "
    "2015, option A).\"\"\"\n"
    "    x, more = x[:, :, ::stride, ::stride], channels - x.shape[1]\n"
    "    return F.pad(x, (0, 0, 0, 0, more // 2, more - more // 2))\n\n\n"
    "class Network(Part):\n"
    "    def __init__(self):\n"
    "        super().__init__()\n";

static const char tail_text[] =
    "\n\nDTYPES = {\"F32\": torch.float32, \"F64\": torch.float64, \"I64\": torch.int64, \"I32\": "
    "torch.int32}\n\n\n"
    "def read_safetensors(path):\n"
    "    \"\"\"The tensors of a safetensors file, with nothing but torch.\"\"\"\n"
    "    with open(path, \"rb\") as file:\n"
    "        data = file.read()\n"
    "    size, = struct.unpack_from(\"<Q\", data)\n"
    "    header = json.loads(data[8:8 + size])\n"
    "    header.pop(\"__metadata__\", None)\n"
    "    tensors = {}\n"
    "    for name, entry in header.items():\n"
    "        begin, end = entry[\"data_offsets\"]\n"
    "        raw = bytearray(data[8 + size + begin:8 + size + end])\n"
    "        tensors[name] = torch.frombuffer(raw, "
    "dtype=DTYPES[entry[\"dtype\"]]).reshape(entry[\"shape\"])\n"
    "    return tensors\n\n\n"
    "def load(path=os.path.join(HERE, \"weights.safetensors\")):\n"
    "    model = Network()\n"
    "    missing, unexpected = model.load_state_dict(read_safetensors(path), strict=False)\n"
    "    missing = [name for name in missing if not name.endswith(\"num_batches_tracked\")]\n"
    "    if missing or unexpected:\n"
    "        raise SystemExit(f\"{path}: missing {missing}, unexpected {unexpected}\")\n"
    "    return model.eval()\n\n\n"
    "def check(tolerance=1e-9):\n"
    "    \"\"\"Logits of fixed images in double, against those of kas-gpu's float64 "
    "reference.\"\"\"\n"
    "    given = read_safetensors(os.path.join(HERE, \"check.safetensors\"))\n"
    "    with torch.no_grad():\n"
    "        logits = load().double()(given[\"images\"])\n"
    "    error = ((logits - given[\"logits\"]).abs().max() / "
    "given[\"logits\"].abs().max()).item()\n"
    "    verdict = \"ok\" if error <= tolerance else \"FAILED\"\n"
    "    print(f\"{verdict}: logits of {len(logits)} images: largest error {error:.3g} of the "
    "largest logit, tolerance {tolerance:g}\")\n"
    "    return verdict == \"ok\"\n\n\n"
    "if __name__ == \"__main__\":\n"
    "    if sys.argv[1:] != [\"--check\"]:\n"
    "        raise SystemExit(\"usage: python3 network.py --check\")\n"
    "    sys.exit(0 if check() else 1)\n";

/* Makes a Python variable of a layer's name: "layer1_0_conv1". A single word gets an underscore
 * behind it, because it may mean something in Python ("in", "torch"), and a number gets a word
 * in front. */
static void plain_variable(const kas_layer *l, char out[KAS_LAYER_NAME + 8])
{
    bool digit = isdigit((unsigned char)*l->name);
    size_t letters = strspn(l->name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");
    snprintf(out, KAS_LAYER_NAME + 8, "%s%s%s", digit ? "layer_" : "", l->name,
             l->name[letters] ? "" : "_");
    for (char *c = out; *c; c++)
        *c = isalnum((unsigned char)*c) ? *c : '_';
}

/* Writes the variable of a layer's output, with the layer's number where both "a.b" and "a_b"
 * are layers. */
static void put_variable(const kas_net *net, int layer, kas_buf *out)
{
    char name[KAS_LAYER_NAME + 8], other[KAS_LAYER_NAME + 8];
    bool taken = false;
    if (layer == 0) {
        kas_buf_puts(out, "x");
        return;
    }
    plain_variable(&net->layer[layer], name);
    for (int i = 1; i < net->layers && !taken; i++) {
        plain_variable(&net->layer[i], other);
        taken = i != layer && strcmp(name, other) == 0;
    }
    kas_buf_puts(out, name);
    if (taken)
        kas_buf_printf(out, "__%d", layer);
}

/* Returns the torch function of a layer with one argument. */
static const char *function_of(kas_layer_op op)
{
    static const char *const names[KAS_LAYER_OPS] = {
        [KAS_LAYER_RELU] = "torch.relu",       [KAS_LAYER_RELU6] = "F.relu6",
        [KAS_LAYER_SILU] = "F.silu",           [KAS_LAYER_HARD_SWISH] = "F.hardswish",
        [KAS_LAYER_GELU] = "F.gelu",           [KAS_LAYER_HARD_SIGMOID] = "F.hardsigmoid",
        [KAS_LAYER_SIGMOID] = "torch.sigmoid",
    };
    return names[op];
}

static void put_pool(const kas_layer *l, const char *x, kas_buf *out)
{
    bool average = l->op == KAS_LAYER_AVG_POOL;
    kas_buf_printf(out, "F.%s_pool2d(%s, (%d, %d), %d, (%d, %d), ceil_mode=%s",
                   average ? "avg" : "max", x, l->kernel_h, l->kernel_w, l->stride, l->pad_h,
                   l->pad_w, l->ceil_mode ? "True" : "False");
    if (average)
        kas_buf_printf(out, ", count_include_pad=%s", l->count_include_pad ? "True" : "False");
    kas_buf_puts(out, ")");
}

/* Writes a call of layer i, whose first input is `x`. */
static void put_call(const kas_export_net *n, int i, const char *x, kas_buf *out)
{
    const kas_layer *l = &n->net->layer[i];
    /* A kernel reads images of any size. */
    switch (kas_replacement_at(n->replacement, i) >= 0 ? KAS_LAYER_CONV : l->op) {
    case KAS_LAYER_CONV:
    case KAS_LAYER_BATCH_NORM:
        kas_python_module_path(l->name, out);
        kas_buf_printf(out, "(%s)", x);
        break;
    case KAS_LAYER_LINEAR:
        kas_python_module_path(l->name, out);
        kas_buf_printf(out, "(%s.flatten(1))[:, :, None, None]", x);
        break;
    case KAS_LAYER_LAYER_NORM: /* over the channels, which must be last */
        kas_python_module_path(l->name, out);
        kas_buf_printf(out, "(%s.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)", x);
        break;
    case KAS_LAYER_AVG_POOL:
    case KAS_LAYER_MAX_POOL:
        put_pool(l, x, out);
        break;
    case KAS_LAYER_GLOBAL_AVG_POOL:
        kas_buf_printf(out, "%s.mean((2, 3), keepdim=True)", x);
        break;
    case KAS_LAYER_ADAPTIVE_AVG_POOL:
        kas_buf_printf(out, "F.adaptive_avg_pool2d(%s, (%d, %d))", x, l->h, l->w);
        break;
    case KAS_LAYER_SHORTCUT_A:
        kas_buf_printf(out, "shortcut(%s, %d, %d)", x, l->c, l->stride);
        break;
    case KAS_LAYER_FLATTEN: /* still an image, of one pixel */
        kas_buf_printf(out, "%s.flatten(1)[:, :, None, None]", x);
        break;
    case KAS_LAYER_DROPOUT:
        kas_buf_printf(out, "F.dropout(%s, ", x);
        kas_buf_number(out, l->probability);
        kas_buf_puts(out, ", self.training)");
        break;
    default:
        kas_buf_printf(out, "%s(%s)", function_of(l->op), x);
    }
}

/* Writes a layer of several inputs: "a + b", "a * b", "torch.cat((a, b, c), 1)". */
static void put_several(const kas_net *net, const kas_layer *l, kas_buf *out)
{
    const char *between = l->op == KAS_LAYER_ADD ? " + " : l->op == KAS_LAYER_CONCAT ? ", " : " * ";
    kas_buf_puts(out, l->op == KAS_LAYER_CONCAT ? "torch.cat((" : "");
    for (int k = 0; k < l->inputs; k++) {
        kas_buf_puts(out, k ? between : "");
        put_variable(net, l->in[k], out);
    }
    kas_buf_puts(out, l->op == KAS_LAYER_CONCAT ? "), 1)" : "");
}

static kas_status put_forward(const kas_export_net *n, kas_buf *out)
{
    const kas_net *net = n->net;
    kas_buf x = {0};
    kas_buf_puts(out, "\n    def forward(self, x):\n");
    for (int i = 1; i < net->layers; i++) {
        const kas_layer *l = &net->layer[i];
        kas_buf_puts(out, "        ");
        put_variable(net, i, out);
        kas_buf_puts(out, " = ");
        kas_buf_clear(&x);
        put_variable(net, l->in[0], &x);
        if (l->inputs > 1)
            put_several(net, l, out);
        else
            put_call(n, i, kas_buf_text(&x), out);
        kas_buf_puts(out, "\n");
    }
    kas_buf_puts(out, "        return ");
    put_variable(net, net->layers - 1, out);
    kas_buf_puts(out, ".flatten(1)\n");
    out->failed = out->failed || x.failed;
    kas_buf_free(&x);
    return kas_buf_status(out);
}

/* Writes "from kernel import Kernel", or "from kernel0 import Kernel as Kernel0" for
 * each kernel. */
static void put_imports(const kas_replacement *r, kas_buf *out)
{
    kas_buf_puts(out, here_text);
    if (!r->kernel_of)
        kas_buf_printf(out, import_text, "", "", "");
    for (int k = 0; r->kernel_of && k < r->kernels; k++) {
        char number[16];
        snprintf(number, sizeof number, "%d", k);
        kas_buf_printf(out, import_text, number, " as Kernel", number);
    }
}

kas_status kas_export_network_py(const kas_export_net *n, kas_buf *out)
{
    const kas_layer *input = &n->net->layer[0];
    kas_buf_printf(out, "\"\"\"%s", n->net->name);
    const kas_replacement *r = n->replacement;
    if (r)
        kas_buf_printf(out, replaced_title, r->kernel_of ? "s" : "", r->kernel_of ? "*" : "",
                       kas_replacement_replaced(r));
    kas_buf_printf(out, title_text, input->c, input->h, input->w, n->net->classes);
    if (r)
        put_imports(r, out);
    kas_buf_puts(out, parts_text);
    KAS_TRY(kas_python_modules(n, out));
    KAS_TRY(put_forward(n, out));
    kas_buf_puts(out, tail_text);
    return kas_buf_status(out);
}
