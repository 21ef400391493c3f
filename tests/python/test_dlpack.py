"""DLPack: capsules of ours, of NumPy's and of PyTorch's."""
import gc

import pytest

import kael as k

np = pytest.importorskip('numpy')


def test_a_capsule_is_taken_once(mode):
    x = k.arange(4.)
    capsule = x.__dlpack__()
    del x
    y = k.from_dlpack(capsule)
    assert y.tolist() == [0, 1, 2, 3]
    with pytest.raises(RuntimeError):
        k.from_dlpack(capsule)


def test_a_capsule_dropped_unused_frees_the_tensor():
    gc.collect()
    before = k.stats()['memory_in_use']
    for version in (None, (1, 0)):
        x = k.ones(100_000)
        capsule = x.__dlpack__(max_version=version)
        del x
        assert k.stats()['memory_in_use'] > before
        del capsule
        assert k.stats()['memory_in_use'] == before


def test_numpy_takes_our_memory(mode):
    x = k.arange(12.).reshape(3, 4).t()[1:]
    a = np.from_dlpack(x)
    assert a.tolist() == x.tolist() and a.ctypes.data == x.data_ptr()
    x[0, 0] = 9
    assert a[0, 0] == 9
    del x
    assert a[0, 0] == 9


def test_we_take_numpys_memory(mode):
    a = np.arange(12.).reshape(3, 4)[1:, ::2]
    x = k.from_dlpack(a)
    assert x.tolist() == a.tolist() and x.stride() == (4, 2)
    x.add_(1)
    assert a[0, 0] == 5
    del a
    gc.collect()
    assert x.tolist() == [[5, 7], [9, 11]]


def test_read_only_is_honoured_both_ways():
    a = np.arange(3.)
    a.flags.writeable = False
    x = k.from_dlpack(a)
    with pytest.raises(RuntimeError, match='read-only'):
        x.zero_()
    assert not np.from_dlpack(x).flags.writeable
    with pytest.raises(BufferError):
        x.__dlpack__()


def test_what_cannot_be_exported_is_an_error():
    with pytest.raises(BufferError):
        k.ones(1, requires_grad=True).__dlpack__()
    with pytest.raises(BufferError):
        k.ones(1).__dlpack__(stream=1)
    with pytest.raises(BufferError):
        k.ones(1).__dlpack__(dl_device=(2, 0))
    with pytest.raises(RuntimeError):
        k.from_dlpack(np.zeros(2, 'uint32'))
    assert k.ones(1).__dlpack_device__() == (1, 0)


def test_a_copy_has_memory_of_its_own():
    x = k.zeros(3)
    y = k.from_dlpack(x.__dlpack__(copy=True))
    y.add_(1)
    assert x.tolist() == [0, 0, 0]


def test_pytorch_takes_and_gives():
    torch = pytest.importorskip('torch')
    x = k.arange(6.).reshape(2, 3)
    t = torch.from_dlpack(x)
    t[0, 0] = 7
    assert x[0, 0].item() == 7
    y = k.from_dlpack(torch.arange(4)[1:])
    assert y.tolist() == [1, 2, 3] and y.dtype is k.int64
