"""Functions of neural networks, under PyTorch's names."""
from .. import _C

linear = _C.linear


def _in_place(name):
    def function(input, inplace=False):
        return getattr(input, name + '_')() if inplace else getattr(input, name)()
    function.__name__ = function.__qualname__ = name
    function.__doc__ = getattr(_C.Tensor, name).__doc__
    return function


relu = _in_place('relu')


def tanh(input):
    """Hyperbolic tangent."""
    return input.tanh()


def sigmoid(input):
    """1 / (1 + exp(-x))."""
    return input.sigmoid()


def silu(input, inplace=False):
    """x sigmoid(x)."""
    if inplace:
        return input.copy_(_C.silu(input))
    return _C.silu(input)


def gelu(input, approximate='none'):
    """x times the normal distribution function of x, or with 'tanh' an approximation of it."""
    if approximate not in ('none', 'tanh'):
        raise RuntimeError('approximate argument must be either none or tanh.')
    return _C.gelu(input, approximate == 'tanh')


def softmax(input, dim=None, _stacklevel=3, dtype=None):
    """exp(x - max) / sum of it along a dim."""
    return _C.softmax(input, _dim_of(input, dim), dtype=dtype)


def log_softmax(input, dim=None, _stacklevel=3, dtype=None):
    """The logarithm of softmax."""
    return _C.log_softmax(input, _dim_of(input, dim), dtype=dtype)


def _dim_of(input, dim):
    """The dim that PyTorch takes where none is given."""
    if dim is not None:
        return dim
    return 0 if input.dim() in (0, 1, 3) else 1


def _plain(name, **given):
    for key, (value, default) in given.items():
        if value != default and value is not None:
            raise NotImplementedError(f'{name}(): {key} is not part of this version of kael')


def nll_loss(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None,
             reduction='mean'):
    """Minus the log probability of the target."""
    _plain('nll_loss', weight=(weight, None), ignore_index=(ignore_index, -100))
    return _C.nll_loss(input, target, reduction)


def cross_entropy(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None,
                  reduction='mean', label_smoothing=0.0):
    """nll_loss of log_softmax over the classes."""
    _plain('cross_entropy', weight=(weight, None), ignore_index=(ignore_index, -100),
           label_smoothing=(label_smoothing, 0.0))
    return _C.cross_entropy(input, target, reduction)
