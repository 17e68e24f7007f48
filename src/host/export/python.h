/* PyTorch modules from kernels and networks, readable and with no dependency but torch.
 *
 * The text is built from numbers and from names that this program made; no text of a user's file
 * reaches it. */
#ifndef KAS_EXPORT_PYTHON_H
#define KAS_EXPORT_PYTHON_H

#include "host/core/buf.h"
#include "host/net/net.h"
#include "host/space/solve/replacement.h"

/* kernel.py: class Kernel, the kernel at any layer (any channels, sizes, stride). */
kas_status kas_export_kernel_py(const kas_kernel *kernel, kas_buf *out);

/* network.py: class Network, the whole replaced network, which loads weights.safetensors and can
 * check itself against check.safetensors; without a kernel the network as it is.  Where layers have
 * kernels of their own, kernel k is class Kernel of kernel<k>.py, and is called Kernel<k>. */
typedef struct kas_export_net {
    const kas_net *net;
    const kas_replacement *replacement; /* NULL = the network as it is */
} kas_export_net;
kas_status kas_export_network_py(const kas_export_net *net, kas_buf *out);

/* The modules of __init__, as a tree along the names of the layers. */
kas_status kas_python_modules(const kas_export_net *net, kas_buf *out);
/* "self.layer1[0].conv1": the module of a layer. */
void kas_python_module_path(const char *name, kas_buf *out);

/* Whether weights span H or W, so that the module is bound to one image size. */
bool kas_python_weights_are_sized(const kas_kernel *kernel);
#endif
