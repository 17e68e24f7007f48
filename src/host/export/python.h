/* Writes kernels and networks as readable PyTorch modules that depend on torch alone.
 *
 * The text consists of numbers and of names that this program made, so that no text of a user's
 * file becomes code. */
#ifndef KAS_EXPORT_PYTHON_H
#define KAS_EXPORT_PYTHON_H

#include "host/core/buf.h"
#include "host/net/net.h"
#include "host/space/solve/replacement.h"

/* Appends kernel.py: class Kernel, which is the kernel at any layer (any channels, sizes
 * and stride). */
kas_status kas_export_kernel_py(const kas_kernel *kernel, kas_buf *out);

/* A network to be written. Where layers have different kernels, kernel k is class Kernel of
 * kernel<k>.py, and network.py calls it Kernel<k>. */
typedef struct kas_export_net {
    const kas_net *net;
    const kas_replacement *replacement; /* NULL = the network as it is */
} kas_export_net;
/* Appends network.py: class Network, the network with its replacement. The file loads
 * weights.safetensors and can check itself against check.safetensors. */
kas_status kas_export_network_py(const kas_export_net *net, kas_buf *out);

/* Appends the modules of __init__, as a tree that follows the names of the layers. */
kas_status kas_python_modules(const kas_export_net *net, kas_buf *out);
/* Appends the path of a layer's module, such as "self.layer1[0].conv1". */
void kas_python_module_path(const char *name, kas_buf *out);

/* Returns whether weights depend on H or W, which binds the module to one image size. */
bool kas_python_weights_are_sized(const kas_kernel *kernel);
#endif
