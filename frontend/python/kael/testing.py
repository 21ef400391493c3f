"""Comparing tensors in tests."""
from . import _C
from ._methods import as_tensor, isclose

_TOLERANCES = {_C.float16: (1e-3, 1e-5), _C.bfloat16: (1.6e-2, 1e-5), _C.float32: (1.3e-6, 1e-5),
               _C.float64: (1e-7, 1e-7)}


def assert_close(actual, expected, *, rtol=None, atol=None, equal_nan=False, check_dtype=True,
                 msg=None):
    """Raises AssertionError unless both are close: in shape, in dtype, and in every element.

    The tolerances are PyTorch's for the dtype, unless both are given. Sequences and dicts of
    tensors are compared entry by entry.
    """
    if (rtol is None) != (atol is None):
        raise ValueError('rtol and atol must both be given, or neither')
    if isinstance(actual, dict) and isinstance(expected, dict):
        if actual.keys() != expected.keys():
            raise AssertionError(f'The keys differ: {list(actual)} and {list(expected)}')
        pairs = [(actual[key], expected[key]) for key in actual]
    elif isinstance(actual, (list, tuple)) and isinstance(expected, (list, tuple)):
        if len(actual) != len(expected):
            raise AssertionError(f'The lengths differ: {len(actual)} and {len(expected)}')
        pairs = list(zip(actual, expected))
    else:
        _assert_tensors(as_tensor(actual), as_tensor(expected), rtol, atol, equal_nan, check_dtype,
                        msg)
        return
    for one, other in pairs:
        assert_close(one, other, rtol=rtol, atol=atol, equal_nan=equal_nan,
                     check_dtype=check_dtype, msg=msg)


def _assert_tensors(actual, expected, rtol, atol, equal_nan, check_dtype, msg):
    actual, expected = actual.detach(), expected.detach()
    if actual.shape != expected.shape:
        raise AssertionError(msg or f'The shapes differ: {list(actual.shape)} and '
                                    f'{list(expected.shape)}')
    if actual.dtype != expected.dtype:
        if check_dtype:
            raise AssertionError(msg or f'The dtypes differ: {actual.dtype} and {expected.dtype}')
        actual, expected = actual.double(), expected.double()
    if rtol is None:
        rtol, atol = _TOLERANCES.get(actual.dtype, (0.0, 0.0))
    close = isclose(actual, expected, rtol, atol, equal_nan)
    if bool(close.all()):
        return
    wrong = int((~close).sum())
    apart = (actual.double() - expected.double()).abs()
    raise AssertionError(msg or f'{wrong} of {actual.numel()} elements are not close (greatest '
                                f'difference {apart.amax().item()}, allowed: {atol} + {rtol} * '
                                f'|expected|)')
