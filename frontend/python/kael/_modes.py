"""Scopes of gradient mode and of the compiler, as context managers and decorators."""
import functools

from . import _C


class _Scope:
    """Sets something of the calling thread and sets it back. Each use is independent."""

    def __init__(self):
        self._before = []

    def __enter__(self):
        self._before.append(self._set())
        return None

    def __exit__(self, *error):
        self._restore(self._before.pop())
        return False

    def __call__(self, function):
        @functools.wraps(function)
        def inside(*args, **kwargs):
            with self._again():
                return function(*args, **kwargs)
        return inside

    def _again(self):
        return type(self)()


class no_grad(_Scope):
    """Operations inside are not remembered for gradients."""

    def __new__(cls, function=None):
        return _bare(cls, function)

    def __init__(self, function=None):
        super().__init__()

    def _set(self):
        return _C._set_grad_enabled(False)

    def _restore(self, before):
        _C._set_grad_enabled(before)


class enable_grad(no_grad):
    """Operations inside are remembered for gradients, also inside no_grad."""

    def _set(self):
        return _C._set_grad_enabled(True)


def _bare(cls, function):
    """@no_grad without parentheses decorates at once."""
    scope = object.__new__(cls)
    if function is None:
        return scope
    _Scope.__init__(scope)
    return scope(function)


class set_grad_enabled(_Scope):
    """Gradient mode on or off: at once, and as a scope."""

    def __init__(self, mode):
        super().__init__()
        self._mode = bool(mode)
        self._first = _C._set_grad_enabled(self._mode)

    def _set(self):
        _C._set_grad_enabled(self._mode)
        return self._first

    def _restore(self, before):
        _C._set_grad_enabled(before)

    def __call__(self, function):
        _C._set_grad_enabled(self._first)
        return super().__call__(function)

    def _again(self):
        return set_grad_enabled(self._mode)


class inference_mode(_Scope):
    """As no_grad; views made inside may not be changed in place later, while gradient mode is on."""

    def __new__(cls, mode=True):
        return _bare(cls, mode if callable(mode) else None)

    def __init__(self, mode=True):
        super().__init__()
        self._mode = mode if isinstance(mode, bool) else True

    def _set(self):
        return _C._set_inference_mode(self._mode)

    def _restore(self, before):
        _C._set_inference_mode(before)

    def _again(self):
        return inference_mode(self._mode)


# --- The compiler ---------------------------------------------------------------------------------

_DEFAULT, _EAGER, _LAZY, _SYNC = -1, 0, 1, 2
_MODES = {False: _EAGER, True: _LAZY, 'sync': _SYNC}


def set_jit(mode):
    """Says when operations run, for the whole process.

    False: each as it is called. True: they are recorded, fused and run when a value is needed.
    'sync': the same, compiled before the first run. No result shows the mode.
    """
    try:
        number = _MODES[mode]
    except (KeyError, TypeError):
        raise ValueError(f"set_jit(): the mode must be False, True or 'sync', not {mode!r}") from None
    _C._set_jit(number, True)


def jit_mode():
    """The mode in force on the calling thread: False, True or 'sync'."""
    return {_EAGER: False, _LAZY: True, _SYNC: 'sync'}[_C._jit()]


class jit(_Scope):
    """A scope with a mode of its own, on the calling thread."""

    def __init__(self, mode=True):
        super().__init__()
        self._mode = mode
        self._number = _MODES[mode]

    def _set(self):
        return _C._set_jit(self._number, False)

    def _restore(self, before):
        _C._set_jit(before, False)

    def _again(self):
        return jit(self._mode)


def compile(function=None, *, sync=False):
    """Makes a function run with the compiler on: its operations are recorded and fused."""
    if function is None:
        return functools.partial(compile, sync=sync)

    @functools.wraps(function)
    def compiled(*args, **kwargs):
        with jit('sync' if sync or _C._jit() == _SYNC else True):
            return function(*args, **kwargs)
    return compiled


def _tensors_in(value, found):
    if isinstance(value, _C.Tensor):
        found.append(value)
    elif isinstance(value, dict):
        for item in value.values():
            _tensors_in(item, found)
    elif isinstance(value, (list, tuple)):
        for item in value:
            _tensors_in(item, found)


def eval(*tensors):
    """Computes what the tensors need, in one run. Lists, tuples and dicts of tensors may be given."""
    found = []
    _tensors_in(tensors, found)
    _C._eval(tuple(found))


def manual_seed(seed):
    """Starts the random generator again from a seed."""
    _C._manual_seed(seed)
