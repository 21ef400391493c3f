"""Nothing lives longer than it should, or shorter."""
import gc
import weakref

import pytest

import kael as k


def in_use():
    gc.collect()
    return k.stats()['memory_in_use']


def objects():
    gc.collect()
    return sum(1 for o in gc.get_objects() if isinstance(o, k.Tensor))


def test_a_dead_tensor_gives_its_memory_back(mode):
    before = in_use()
    x = k.ones(100_000)
    k.eval(x)
    assert in_use() >= before + 400_000
    y = x.t()
    del x
    assert in_use() >= before + 400_000
    del y
    assert in_use() == before


def test_an_object_dies_with_its_last_name(mode):
    x = k.ones(3)
    ref = weakref.ref(x)
    y = x
    del x
    assert ref() is y
    del y
    assert ref() is None


def test_a_thousand_rounds_of_everything_leave_nothing(mode):
    def round():
        x = k.tensor([[1., 2.], [3., 4.]], requires_grad=True)
        hook = x.register_hook(lambda g: g * 1)
        y = (x @ x + x[0] - x[:, None, 1]).exp().sum()
        y.backward()
        parts = x.split(1) + x.unbind(1) + tuple(x)
        x.grad.tolist(), repr(x), parts, x.shape
        hook.remove()
        for wrong in (lambda: x + k.ones(7), lambda: x[5], lambda: k.tensor([[1], [2, 3]]),
                      lambda: k.cat([x, 1]), lambda: x.sum(nothing=1)):
            with pytest.raises((RuntimeError, IndexError, ValueError, TypeError)):
                wrong()
    for _ in range(20):
        round()
    import sys
    gc.collect()
    memory, blocks = in_use(), sys.getallocatedblocks()
    for _ in range(300):
        round()
    gc.collect()
    assert in_use() == memory
    assert sys.getallocatedblocks() - blocks < 100


def test_a_hook_lets_go_of_its_function():
    class Function:
        def __call__(self, grad):
            return None
    function = Function()
    ref = weakref.ref(function)
    x = k.ones(1, requires_grad=True)
    handle = x.register_hook(function)
    del function
    assert ref() is not None
    handle.remove()
    assert ref() is None
    function = Function()
    ref = weakref.ref(function)
    x.register_hook(function)
    del function
    assert ref() is not None
    del x
    k.ones(1)
    assert ref() is None


def test_a_storage_counts_its_views():
    x = k.ones(4)
    assert x._storage_references() == 1
    y = x[1:]
    assert x._storage_references() == 2
    del y
    assert x._storage_references() == 1 and x._references() == 1
