"""TF32 on or off in PyTorch, for convolutions and matrix products alike."""
import torch


def set_tf32(on):
    """By the old names, and cuDNN's new one, which the templates of max-autotune read.  The new ones alone are refused
    where PyTorch itself asks by the old; so is a new one that says otherwise, so it is taken back as well."""
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = on
    if hasattr(torch.backends.cudnn, "fp32_precision"):
        torch.backends.cudnn.fp32_precision = "tf32" if on else "ieee"
