#include "host/export/python_node.h"

kas_status kas_python_softmax(const kas_kernel *kernel, int i, int weight, kas_buf *out)
{
    const kas_node *node = &kernel->node[i];
    (void)weight;
    int begin = node->dim + 2, last = node->dim_end + 1, a = node->in[0];
    if (begin == last)
        kas_buf_printf(out, "        n%d = torch.softmax(n%d, %d)\n", i, a, begin);
    else
        kas_buf_printf(out,
                       "        n%d = torch.softmax(n%d.flatten(%d, %d), %d).reshape(n%d.shape)\n",
                       i, a, begin, last, begin, a);
    return KAS_OK;
}
