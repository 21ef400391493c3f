"""Tensors as text, in PyTorch's format.

A tensor of more than `threshold` elements is summarised: the first and last `edgeitems` of each dim
are shown, and only they are read.
"""
import math

from . import _C


class _Options:
    precision = 4
    threshold = 1000
    edgeitems = 3
    linewidth = 80
    sci_mode = None


options = _Options()


def set_printoptions(precision=None, threshold=None, edgeitems=None, linewidth=None, profile=None,
                     sci_mode=None):
    """Sets how tensors print: digits, the size from which they are summarised, and the rest."""
    profiles = {'default': (4, 1000, 3, 80), 'short': (2, 1000, 2, 80),
                'full': (4, math.inf, 3, 80)}
    if profile is not None:
        (options.precision, options.threshold, options.edgeitems,
         options.linewidth) = profiles[profile]
    for name, value in (('precision', precision), ('threshold', threshold),
                        ('edgeitems', edgeitems), ('linewidth', linewidth)):
        if value is not None:
            setattr(options, name, value)
    options.sci_mode = sci_mode


def _flat(value, into):
    if isinstance(value, list):
        for item in value:
            _flat(item, into)
    else:
        into.append(value)


class _Formatter:
    """One format for all elements that are shown."""

    def __init__(self, values, is_float):
        self.is_float = is_float
        self.is_whole = True
        self.scientific = False
        self.width = 1
        if not is_float:
            self.width = max([len(str(v)) for v in values], default=1)
            return
        # As in PyTorch, neither zeros nor what is not finite widens the columns.
        finite = [v for v in values if math.isfinite(v) and v != 0]
        if finite:
            self._choose(finite)

    def _choose(self, finite):
        sizes = [abs(v) for v in finite]
        least, most = min(sizes), max(sizes)
        self.is_whole = all(v == math.ceil(v) for v in finite)
        if self.is_whole:
            self.scientific = most / least > 1000.0 or most > 1.0e8
        else:
            self.scientific = most / least > 1000.0 or most > 1.0e8 or least < 1.0e-4
        if options.sci_mode is not None:
            self.scientific = options.sci_mode
        self.width = max(len(self._text(v)) for v in finite)

    def _text(self, value):
        if not self.is_float:
            return str(value)
        if self.scientific:
            return f'{value:.{options.precision}e}'
        if self.is_whole:
            text = f'{value:.0f}'
            return text if not math.isfinite(value) else text + '.'
        return f'{value:.{options.precision}f}'

    def __call__(self, value):
        return self._text(value).rjust(self.width)


def _edges(tensor):
    """The elements that a summary shows, as nested lists with None for what is left out."""
    edge = options.edgeitems
    if tensor.dim() == 0:
        return tensor.item()
    n = tensor.shape[0]
    if tensor.dim() == 1:
        if n <= 2 * edge:
            return tensor.tolist()
        return tensor[:edge].tolist() + [None] + tensor[n - edge:].tolist()
    if n <= 2 * edge:
        return [_edges(tensor[i]) for i in range(n)]
    return ([_edges(tensor[i]) for i in range(edge)] + [None]
            + [_edges(tensor[i]) for i in range(n - edge, n)])


def _lines(values, depth, indent, text):
    if depth == 0:
        return text(values)
    if depth == 1:
        room = max(1, int((options.linewidth - indent) // max(1, text.width + 2)))
        shown = [' ...' if v is None else text(v) for v in values]
        rows = [shown[i:i + room] for i in range(0, len(shown), room)]
        return '[' + (',\n' + ' ' * (indent + 1)).join(', '.join(row) for row in rows) + ']'
    parts = ['...' if v is None else _lines(v, depth - 1, indent + 1, text) for v in values]
    return '[' + (',' + '\n' * (depth - 1) + ' ' * (indent + 1)).join(parts) + ']'


def _body(tensor, indent):
    plain = tensor.detach()
    summarised = plain.numel() > options.threshold
    values = _edges(plain) if summarised else plain.tolist()
    flat = []
    _flat(values, flat)
    flat = [v for v in flat if v is not None]
    text = _Formatter(flat, plain.is_floating_point())
    return _lines(values, plain.dim(), indent, text)


def _is_default(dtype):
    return dtype in (_C.float32, _C.int64, _C.bool)


def tensor_text(tensor):
    """repr(tensor)."""
    name = 'tensor' if type(tensor) is _C.Tensor else type(tensor).__name__
    if name == 'Parameter':
        return 'Parameter containing:\n' + _text(tensor, 'tensor')
    return _text(tensor, name)


def _text(tensor, name):
    prefix = name + '('
    suffixes = []
    if tensor.numel() == 0:
        body = '[]'
        if tensor.dim() != 1:
            suffixes.append(f'size={tuple(tensor.shape)}')
        if tensor.dtype != _C.float32:
            suffixes.append(f'dtype={tensor.dtype!r}')
    else:
        body = _body(tensor, len(prefix))
        if not _is_default(tensor.dtype):
            suffixes.append(f'dtype={tensor.dtype!r}')
    node = tensor.grad_fn
    if node is not None:
        suffixes.append(f'grad_fn=<{node.name()}>')
    elif tensor.requires_grad:
        suffixes.append('requires_grad=True')
    return _join(prefix + body, suffixes, len(prefix))


def _join(text, suffixes, indent):
    """Suffixes go on a new line where the line would be too long."""
    last = len(text) - text.rfind('\n') + 1
    for suffix in suffixes:
        if last + len(suffix) + 2 > options.linewidth:
            text += ',\n' + ' ' * indent + suffix
            last = indent + len(suffix)
        else:
            text += ', ' + suffix
            last += len(suffix) + 2
    return text + ')'
