"""NumPy arrays and tensors over one memory, and values against NumPy's."""
import gc
import weakref

import pytest

import kael as k

np = pytest.importorskip('numpy')

DTYPES = [d for d in ('float32', 'float64', 'int64', 'int32', 'uint8', 'bool', 'int16', 'int8',
                      'float16')]


def supported(name):
    try:
        k.zeros(1, dtype=getattr(k, name))
        return True
    except NotImplementedError:
        return False


@pytest.fixture(params=DTYPES)
def dtype(request):
    if not supported(request.param):
        pytest.skip(f'{request.param} is not part of this version of kael')
    return request.param


def test_from_numpy_shares_memory_both_ways(dtype, mode):
    a = np.arange(6).reshape(2, 3).astype(dtype)
    x = k.from_numpy(a)
    assert x.dtype is getattr(k, dtype) and x.tolist() == a.tolist() and x.data_ptr() == a.ctypes.data
    a[0, 0] = 1
    assert x[0, 0].item() == 1
    x[1, 2] = 0
    assert a[1, 2] == 0


def test_numpy_shares_memory_both_ways(dtype, mode):
    x = k.tensor([[0, 1, 2], [3, 4, 5]]).to(getattr(k, dtype))
    a = x.numpy()
    assert a.dtype == dtype and a.tolist() == x.tolist()
    x[0, 0] = 1
    assert a[0, 0] == 1
    a[1, 1] = 0
    assert x[1, 1].item() == 0 and (x.t() + x.t()).tolist() == (a.T + a.T).tolist()


def test_strides_and_offsets_carry_over(mode):
    a = np.arange(24.).reshape(4, 6)[1:, ::2].T
    x = k.from_numpy(a)
    assert x.stride() == (2, 6) and x.tolist() == a.tolist() and not x.is_contiguous()
    b = k.arange(24.).reshape(4, 6)[1:, ::2].t().numpy()
    assert b.strides == (8, 24) and b.tolist() == a.tolist()


def test_empty_and_0d_arrays(mode):
    assert k.from_numpy(np.zeros((2, 0), 'float32')).shape == (2, 0)
    assert k.from_numpy(np.array(2.5)).item() == 2.5
    assert k.zeros(0, 3).numpy().shape == (0, 3) and k.tensor(2.5).numpy() == 2.5


@pytest.mark.parametrize('array, error', [
    (np.arange(4)[::-1], ValueError), (np.array(['a']), TypeError), (np.array([1j]), TypeError),
    (np.arange(4).astype('>i4'), TypeError), ([1, 2], TypeError),
    (np.zeros(3, 'uint32'), TypeError),
    (np.zeros(4, [('a', 'i1'), ('b', 'i4')])['b'], ValueError),
])
def test_arrays_that_no_tensor_can_be_are_errors(array, error):
    with pytest.raises(error):
        k.from_numpy(array)


def test_a_read_only_array_gives_a_read_only_tensor(mode):
    a = np.arange(3.)
    a.flags.writeable = False
    x = k.from_numpy(a)
    assert (x + 1).tolist() == [1, 2, 3]
    with pytest.raises(RuntimeError, match='read-only'):
        x.add_(1)
    assert not x.numpy().flags.writeable


def test_a_tensor_that_requires_grad_is_no_array():
    x = k.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match='detach'):
        x.numpy()
    with pytest.raises(RuntimeError, match='detach'):
        np.asarray(x)
    assert x.numpy(force=True).tolist() == [1, 1]


def test_numpy_functions_take_tensors(mode):
    x = k.arange(3.)
    assert np.asarray(x).ctypes.data == x.data_ptr()
    assert np.asarray(x, dtype='float64').dtype == 'float64'
    assert np.add(x, 1).tolist() == [1, 2, 3]
    assert isinstance(np.float32(2) * x, k.Tensor)
    assert (x * np.float64(2)).dtype is k.float32 and (x + np.int64(1)).tolist() == [1, 2, 3]


def test_pending_work_of_the_memory_runs_first():
    k.set_jit(True)
    try:
        x = k.zeros(4)
        y = x + 1
        x.add_(5)
        a = x.numpy()
        a[:] = 9
        assert y.tolist() == [1, 1, 1, 1] and x.tolist() == [9, 9, 9, 9]
        x.mul_(2)
        assert a.tolist() == [18, 18, 18, 18]
    finally:
        k.set_jit(False)


def test_the_array_keeps_the_tensor_and_the_tensor_the_array(mode):
    a = k.arange(5.).numpy()
    gc.collect()
    [k.zeros(5) + 3 for _ in range(50)]
    assert a.tolist() == [0, 1, 2, 3, 4]

    class Array(np.ndarray):
        pass
    b = np.arange(5.).view(Array)
    ref = weakref.ref(b)
    x = k.from_numpy(b)
    y = x[1:]
    del b, x
    gc.collect()
    assert ref() is not None and y.tolist() == [1, 2, 3, 4]
    del y
    gc.collect()
    assert ref() is None


def test_tensor_copies_an_array(dtype):
    a = np.array([[0, 1], [1, 0]]).astype(dtype)[:, ::-1]
    x = k.tensor(a)
    a[:] = 0
    assert x.tolist() == np.array([[1, 0], [0, 1]]).astype(dtype).tolist()
    assert x.dtype is getattr(k, dtype)


RANDOM = np.random.default_rng(0)


@pytest.mark.parametrize('name, function', [
    ('add', np.add), ('sub', np.subtract), ('mul', np.multiply), ('div', np.divide),
    ('maximum', np.maximum), ('minimum', np.minimum), ('lt', np.less), ('eq', np.equal),
])
def test_binary_operators_agree_with_numpy(name, function, mode):
    a = RANDOM.normal(size=(3, 1, 4)).astype('float32')
    b = RANDOM.normal(size=(2, 1)).astype('float32')
    got = getattr(k, name)(k.tensor(a), k.tensor(b)).numpy()
    assert np.array_equal(got, function(a, b))


@pytest.mark.parametrize('name', ['exp', 'log', 'sqrt', 'tanh', 'abs', 'square', 'reciprocal'])
def test_unary_operators_agree_with_numpy(name, mode):
    a = np.abs(RANDOM.normal(size=(5, 7)).astype('float32')) + 0.1
    got = getattr(k, name)(k.tensor(a)).numpy()
    np.testing.assert_allclose(got, getattr(np, name)(a), rtol=1e-6)


@pytest.mark.parametrize('axis', [None, 0, 1, (0, 2), -1])
@pytest.mark.parametrize('name, function', [('sum', np.sum), ('mean', np.mean), ('amax', np.max)])
def test_reductions_agree_with_numpy(name, function, axis, mode):
    a = RANDOM.normal(size=(3, 4, 5))
    got = getattr(k, name)(k.tensor(a), **({} if axis is None else {'dim': axis}))
    np.testing.assert_allclose(got.numpy(), function(a, axis=axis), rtol=1e-12)


def test_matmul_agrees_with_numpy(mode):
    a, b = RANDOM.normal(size=(2, 3, 4)), RANDOM.normal(size=(4, 5))
    np.testing.assert_allclose((k.tensor(a) @ k.tensor(b)).numpy(), a @ b, rtol=1e-12)
