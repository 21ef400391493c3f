"""Gradients of functions."""
from . import _C
from ._modes import enable_grad, inference_mode, no_grad, set_grad_enabled

__all__ = ['backward', 'enable_grad', 'grad', 'inference_mode', 'no_grad', 'set_grad_enabled']


class _Node:
    """The operation that made a tensor: PyTorch's grad_fn, as far as its name."""

    def __init__(self, text):
        self._name = text

    def name(self):
        """The name of the operation."""
        return self._name

    def __repr__(self):
        return f'<{self._name}>'


def _node(text, tensor):
    return _Node(text)


def _tuple(value):
    return (value,) if value is None or isinstance(value, _C.Tensor) else tuple(value)


def _seeds(grads, n):
    return (None,) * n if grads is None else _tuple(grads)


def grad(outputs, inputs, grad_outputs=None, retain_graph=None, create_graph=False,
         allow_unused=None, materialize_grads=False):
    """Gradients of `outputs` with respect to `inputs`, as a tuple; nothing is accumulated.

    An input that no output depends on is an error, or gives None with allow_unused, or zeros with
    materialize_grads.
    """
    outputs, inputs = _tuple(outputs), _tuple(inputs)
    if not inputs:
        raise ValueError('grad requires non-empty inputs.')
    if materialize_grads and allow_unused is False:
        raise ValueError('materialize_grads needs allow_unused')
    retain = create_graph if retain_graph is None else retain_graph
    unused = materialize_grads if allow_unused is None else allow_unused
    grads = _C._grad(outputs, _seeds(grad_outputs, len(outputs)), inputs, retain, create_graph,
                     unused)
    if materialize_grads:
        grads = tuple(_C.zeros_like(x) if g is None else g for g, x in zip(grads, inputs))
    return grads


def backward(tensors, grad_tensors=None, retain_graph=None, create_graph=False):
    """Adds to the gradient of every leaf that the tensors depend on, in one pass."""
    tensors = _tuple(tensors)
    retain = create_graph if retain_graph is None else retain_graph
    _C._grad(tensors, _seeds(grad_tensors, len(tensors)), (), retain, create_graph, False)
