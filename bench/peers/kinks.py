"""Weights at which no value lies near the kink of a ReLU.

Float32 puts a value near 0 on the other side of a ReLU now and then, ours and PyTorch's alike, and which one depends on
the order of sums.  Each time a whole path of the gradient appears or disappears: PyTorch's own float32 gradients of a
deep network differ from its float64 ones by several percent.  That says nothing about either program.  So before a
step is compared, one forward pass in double goes through the network from its images to its logits and moves the bias
in front of each ReLU (of the batch norm, or of the linear map), channel by channel, to where the kink falls into the
largest gap between the batch's values.  Nothing else is changed: half of the values still lie on either side, and both
programs get the same weights.
"""
import torch
import torch.nn.functional as F

RANGE = 0.5       # a bias moves by at most this many standard deviations of its channel
CANDIDATES = 64   # gaps that are tried, the largest ones


def distance(values, at):
    """From each of at [C, K] to the nearest of the sorted values [C, n]."""
    right = torch.searchsorted(values, at).clamp(1, values.shape[1] - 1)
    return torch.minimum((values.gather(1, right - 1) - at).abs(), (values.gather(1, right) - at).abs())


def best_move(x, kinks):
    """What to add to each channel of x [n, C, ...] so that its values are farthest from all kinks."""
    values = x.transpose(0, 1).flatten(1).sort(dim=1).values.contiguous()
    middle, gap = (values[:, 1:] + values[:, :-1]) / 2, values[:, 1:] - values[:, :-1]
    far = middle.abs() > RANGE * values.std(dim=1, keepdim=True)
    best = gap.masked_fill(far, 0).topk(min(CANDIDATES, gap.shape[1]), dim=1).indices
    move = torch.cat([torch.zeros_like(middle[:, :1]), -middle.gather(1, best).masked_fill(far.gather(1, best), 0)], 1)
    room = torch.stack([distance(values, (kink - move).contiguous()) for kink in kinks]).amin(dim=0)
    return move.gather(1, room.argmax(dim=1, keepdim=True)).flatten()


class Kinks:
    """Takes the place of torch.relu and F.relu6, and remembers the nearest that any value came to a kink."""

    def __init__(self, model):
        self.moving, self.nearest, self.last = False, float("inf"), None
        for module in model.modules():
            if getattr(module, "bias", None) is not None:
                module.register_forward_hook(self.passed)
        relu, relu6 = torch.relu, F.relu6
        torch.relu = lambda x: relu(self.before(x, (0,)))
        F.relu6 = lambda x: relu6(self.before(x, (0, 6)))

    def passed(self, module, inputs, output):
        self.last = module

    def before(self, x, kinks):
        if self.moving:
            if self.last is None or self.last.bias.numel() != x.shape[1]:
                return x  # no bias in front of this one
            move = best_move(x, kinks).float().double()
            self.last.bias += move
            return x + move.reshape([-1] + [1] * (x.dim() - 2))
        self.nearest = min([self.nearest] + [(x.detach() - kink).abs().min().item() for kink in kinks])
        return x

    def clear(self, model, images):
        """Moves the biases for these images."""
        self.moving = True
        with torch.no_grad():
            model(images)
        self.moving = False
