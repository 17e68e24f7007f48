/* Writes kernel.py: the class, its weights and its forward pass. python_node.c writes the lines
 * of nodes. */
#include "host/export/python.h"

#include "host/export/python_node.h"
#include "host/space/weights.h"

#include <ctype.h>
#include <string.h>

static const char taps_text[] =
    "\n\ndef taps(x, along, count, place, dilation=1):\n"
    "    \"\"\"Neighbours along one dim: [..., place: tap, ...][tap, i] =\n"
    "    x[i + dilation * (tap - count // 2)], 0 outside.\"\"\"\n"
    "    size, before = x.shape[along], dilation * (count // 2)\n"
    "    after = dilation * (count - 1) - before\n"
    "    zeros = x.new_zeros([before + after if d == along else s for d, s in "
    "enumerate(x.shape)])\n"
    "    x = torch.cat([zeros.narrow(along, 0, before), x, zeros.narrow(along, 0, after)], "
    "along)\n"
    "    return torch.stack([x.narrow(along, dilation * tap, size) for tap in range(count)], "
    "place)\n";

static const char factor_text[] = "\n\ndef factor(*shape):\n"
                                  "    \"\"\"Leaves its operand as it is.\"\"\"\n"
                                  "    return nn.Parameter(torch.ones(*shape))\n";

static const char convolve_text[] =
    "\n\ndef convolve(x, weight, window, size, dilation=1):\n"
    "    \"\"\"A convolution for each instance and group; weight: [instance, group, out, in * "
    "window].\"\"\"\n"
    "    groups = weight.shape[0] * weight.shape[1]\n"
    "    kernel = weight.flatten(0, 2).unflatten(1, (-1, *window))\n"
    "    padding = [dilation * (taps // 2) for taps in window]\n"
    "    return F.conv2d(x.reshape(x.shape[0], -1, *size), kernel, padding=padding, "
    "dilation=dilation, groups=groups)\n";

static const char normalise_text[] =
    "\n\ndef normalise(x, dims):\n"
    "    \"\"\"Mean 0 and variance 1 over the dims.\"\"\"\n"
    "    x = x - x.mean(dims, keepdim=True)\n"
    "    return x / torch.sqrt(torch.square(x).mean(dims, keepdim=True) + 1e-5)\n";

static const char tile_text[] =
    "\n\ndef tile(lhs, rhs, prefix, suffix):\n"
    "    \"\"\"lhs repeated over what rhs has between its first `prefix` and last `suffix` dims "
    "(after B, R).\"\"\"\n"
    "    lead, tail = rhs.shape[:2 + prefix], rhs.shape[rhs.dim() - suffix:]\n"
    "    middle = math.prod(rhs.shape[2 + prefix:rhs.dim() - suffix])\n"
    "    lhs = lhs.reshape(*lead, 1, -1, *tail)\n"
    "    size = lhs.shape[len(lead) + 1]\n"
    "    return lhs.expand(*lead, middle // size, size, *tail).reshape(rhs.shape)\n";

static const char pool_text[] =
    "\n\ndef pool(x, size, window, largest):\n"
    "    \"\"\"Maximum or mean of the neighbours that lie inside the image of that size.\"\"\"\n"
    "    image, padding = x.reshape(-1, 1, *size), [count // 2 for count in window]\n"
    "    if largest:\n"
    "        image = F.max_pool2d(image, window, 1, padding)\n"
    "    else:\n"
    "        image = F.avg_pool2d(image, window, 1, padding, count_include_pad=False)\n"
    "    return image.reshape(x.shape)\n";

/* Returns whether `text` contains `word` as a whole identifier. */
static bool mentions(const char *text, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = text; (at = strstr(at, word)); at += length) {
        bool begins = at == text || !(isalnum((unsigned char)at[-1]) || at[-1] == '_');
        if (begins && !isalnum((unsigned char)at[length]) && at[length] != '_')
            return true;
    }
    return false;
}

bool kas_python_weights_are_sized(const kas_kernel *kernel)
{
    for (int i = 0; i < kernel->nodes; i++)
        if (kas_weight_spans_image(kernel, i))
            return true;
    return false;
}

typedef struct parts {
    kas_buf weights, nodes; /* statements of __init__ and of forward */
} parts;

static kas_status put_weight(const kas_kernel *kernel, int i, int number, kas_buf *out)
{
    kas_weight_dims dims;
    const kas_dim *shape[] = {&dims.groups, &dims.fan_out, &dims.fan_in};
    KAS_TRY(kas_weight_dims_of(kernel, i, &dims));
    kas_buf_printf(out, "        self.weight%d = %s(R", number,
                   dims.init == KAS_WEIGHT_ONES ? "factor" : "weight");
    for (int k = 0; k < 3; k++) {
        kas_buf_puts(out, ", ");
        kas_python_dim(shape[k], out);
    }
    kas_buf_puts(out, ")  # instance, group, out, in\n");
    return KAS_OK;
}

static kas_status make_parts(const kas_kernel *kernel, parts *p)
{
    int weights = 0;
    for (int i = 1; i < kernel->nodes; i++) {
        bool has_weight = kas_op_has_weight((kas_op)kernel->node[i].op);
        if (has_weight)
            KAS_TRY(put_weight(kernel, i, weights, &p->weights));
        KAS_TRY(kas_python_node(kernel, i, weights, &p->nodes));
        weights += has_weight;
    }
    KAS_TRY(kas_buf_status(&p->weights));
    return kas_buf_status(&p->nodes);
}

static void put_head(const kas_kernel *kernel, const parts *p, kas_buf *out)
{
    kas_buf_puts(out,
                 "\"\"\"A kernel found by kas-gpu, as a plain PyTorch module; stands in the place "
                 "of a convolution.\"\"\"\n"
                 "import math\n\n"
                 "import torch\n"
                 "import torch.nn.functional as F\n"
                 "from torch import nn\n");
    for (int g = 0; g < KAS_MAX_GROUPS; g++)
        if (kernel->group_value[g])
            kas_buf_printf(out, "%s%s = %u\n", g == 0 ? "\n" : "",
                           kas_symbol_name((kas_symbol)(KAS_SYM_G0 + g)), kernel->group_value[g]);
    kas_buf_puts(out, "\n\ndef weight(*shape):\n"
                      "    \"\"\"Unit gain: variance 1 / fan_in.\"\"\"\n"
                      "    return nn.Parameter(torch.randn(*shape) / math.sqrt(shape[-1]))\n");
    if (strstr(kas_buf_text(&p->weights), "factor("))
        kas_buf_puts(out, factor_text);
    if (strstr(kas_buf_text(&p->nodes), "taps("))
        kas_buf_puts(out, taps_text);
    if (strstr(kas_buf_text(&p->nodes), "convolve("))
        kas_buf_puts(out, convolve_text);
    if (strstr(kas_buf_text(&p->nodes), "normalise("))
        kas_buf_puts(out, normalise_text);
    if (strstr(kas_buf_text(&p->nodes), "tile("))
        kas_buf_puts(out, tile_text);
    if (strstr(kas_buf_text(&p->nodes), "pool("))
        kas_buf_puts(out, pool_text);
}

static void put_rest(const kas_kernel *kernel, int split, uint32_t *done, kas_buf *out)
{
    const kas_split *s = &kernel->split[split];
    if (*done & (1u << split))
        return;
    for (int r = 0; r < KAS_MAX_SPLITS; r++)
        if (s->whole.exp[KAS_SYM_R0 + r])
            put_rest(kernel, r, done, out);
    kas_buf_printf(out, "        %s = ", kas_symbol_name((kas_symbol)(KAS_SYM_R0 + split)));
    kas_python_dim(&s->whole, out);
    kas_buf_printf(out, " - %u\n", s->first);
    *done |= 1u << split;
}

/* Writes "        R0 = C - 16\n" for each rest of a split that `text` mentions, behind those that
 * it needs. */
static void put_rests(const kas_kernel *kernel, const char *text, kas_buf *out)
{
    uint32_t done = 0;
    for (int s = 0; s < KAS_MAX_SPLITS; s++)
        if (kernel->split[s].first && mentions(text, kas_symbol_name((kas_symbol)(KAS_SYM_R0 + s))))
            put_rest(kernel, s, &done, out);
}

static void put_symbols(const char *text, bool in_init, kas_buf *out)
{
    if (mentions(text, "K_H"))
        kas_buf_printf(out, "        K_H = %skernel[0]\n", in_init ? "" : "self.");
    if (mentions(text, "K_W"))
        kas_buf_printf(out, "        K_W = %skernel[1]\n", in_init ? "" : "self.");
    if (in_init && mentions(text, "H"))
        kas_buf_puts(out, "        H = size[0]\n");
    if (in_init && mentions(text, "W"))
        kas_buf_puts(out, "        W = size[1]\n");
    for (int v = 0; !in_init && v < KAS_MAX_VARS; v++) {
        const char *name = kas_symbol_name((kas_symbol)(KAS_SYM_X0 + v));
        if (mentions(text, name))
            kas_buf_printf(out, "        %s = self.%s\n", name, name);
    }
}

/* Writes local names for the sizes other than C that `text` mentions: "        x0 = self.x0\n". */
static void put_locals(const kas_kernel *kernel, const char *text, bool in_init, kas_buf *out)
{
    kas_buf rests = {0}, all = {0};
    put_rests(kernel, text, &rests);
    kas_buf_printf(&all, "%s%s", text, kas_buf_text(&rests));
    put_symbols(kas_buf_text(&all), in_init, out);
    kas_buf_puts(out, kas_buf_text(&rests));
    out->failed = out->failed || rests.failed || all.failed;
    kas_buf_free(&rests);
    kas_buf_free(&all);
}

static void put_class_doc(const kas_kernel *kernel, kas_buf *out)
{
    kas_buf_puts(out, "\n\nclass Kernel(nn.Module):\n"
                      "    \"\"\"[n, c_in, h, w] -> [n, c_out, h / stride, w / stride].\n\n"
                      "    With C = gcd(c_in, c_out), the layer is made of instances [C, H, W] -> "
                      "[C, H, W], one for each pair\n"
                      "    of an output part and an input part, with weights of their own; their "
                      "sum over the input parts is\n"
                      "    divided by the square root of how many there are. ");
    kas_buf_puts(out, kernel->stride_inside
                          ? "Of the result every stride-th\n    pixel is the output.\n"
                          : "A stride is an average pool in front.\n");
    uint32_t vars = kas_kernel_vars(kernel);
    if (vars) {
        kas_buf_puts(out, "\n    Free sizes, chosen for each layer:");
        for (int v = 0; v < KAS_MAX_VARS; v++)
            if (vars & (1u << v))
                kas_buf_printf(out, " %s", kas_symbol_name((kas_symbol)(KAS_SYM_X0 + v)));
        kas_buf_puts(out, ".\n");
    }
    kas_buf_puts(out, "\n    The output is multiplied by the gain, which gives it the scale of a "
                      "usual layer at initialisation.\n    \"\"\"\n\n");
}

static void put_init(const kas_kernel *kernel, const parts *p, kas_buf *out)
{
    const char *weights = kas_buf_text(&p->weights);
    uint32_t vars = kas_kernel_vars(kernel);
    bool sized = kas_python_weights_are_sized(kernel);
    kas_buf_puts(out, "    def __init__(self, c_in, c_out, kernel=(3, 3), stride=1");
    kas_buf_puts(out, ", *");
    if (sized)
        kas_buf_puts(out, ", size");
    for (int v = 0; v < KAS_MAX_VARS; v++)
        if (vars & (1u << v))
            kas_buf_printf(out, ", %s", kas_symbol_name((kas_symbol)(KAS_SYM_X0 + v)));
    kas_buf_puts(out, ", gain=None):\n"
                      "        super().__init__()\n"
                      "        self.register_buffer(\"gain\", None if gain is None else "
                      "torch.tensor([float(gain)]))\n"
                      "        self.c = C = math.gcd(c_in, c_out)\n"
                      "        self.parts_in, self.parts_out = c_in // C, c_out // C\n"
                      "        self.kernel, self.stride = kernel, stride\n");
    for (int v = 0; v < KAS_MAX_VARS; v++)
        if (vars & (1u << v)) {
            const char *name = kas_symbol_name((kas_symbol)(KAS_SYM_X0 + v));
            kas_buf_printf(out, "        self.%s = %s\n", name, name);
        }
    put_locals(kernel, weights, true, out);
    kas_buf_puts(out, "        R = self.parts_out * self.parts_in\n");
    kas_buf_puts(out, weights);
}

static void put_forward(const kas_kernel *kernel, const parts *p, kas_buf *out)
{
    kas_buf_puts(out, "\n    def forward(self, x):\n"
                      "        if self.stride > 1:\n");
    kas_buf_puts(out, kernel->stride_inside
                          ? "            x = F.pad(x, (0, -x.shape[3] % self.stride, 0, "
                            "-x.shape[2] % self.stride))\n"
                          : "            x = F.avg_pool2d(x, self.stride, ceil_mode=True)\n");
    kas_buf_puts(out, "        B, _, H, W = x.shape\n"
                      "        R = self.parts_out * self.parts_in\n"
                      "        C = self.c\n");
    put_locals(kernel, kas_buf_text(&p->nodes), false, out);
    kas_buf_puts(out,
                 "        # every instance reads its input part: [C, H, W]\n"
                 "        n0 = x.reshape(B, 1, self.parts_in, C, H, W)\n"
                 "        n0 = n0.expand(B, self.parts_out, self.parts_in, C, H, W).reshape(B, R, "
                 "C, H, W)\n");
    kas_buf_puts(out, kas_buf_text(&p->nodes));
    kas_buf_printf(out,
                   "        # instances of one output part are added up\n"
                   "        y = n%d.reshape(B, self.parts_out, self.parts_in, C, H, W).sum(2) / "
                   "math.sqrt(self.parts_in)\n"
                   "        y = y.reshape(B, self.parts_out * C, H, W)%s\n"
                   "        return y if self.gain is None else y * self.gain\n",
                   kernel->nodes - 1,
                   kernel->stride_inside ? "[:, :, ::self.stride, ::self.stride]" : "");
}

kas_status kas_export_kernel_py(const kas_kernel *kernel, kas_buf *out)
{
    parts p = {0};
    kas_status status = make_parts(kernel, &p);
    if (status == KAS_OK) {
        put_head(kernel, &p, out);
        put_class_doc(kernel, out);
        put_init(kernel, &p, out);
        put_forward(kernel, &p, out);
        status = kas_buf_status(out);
    }
    kas_buf_free(&p.weights);
    kas_buf_free(&p.nodes);
    return status;
}
