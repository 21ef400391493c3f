"""Optimizers, against PyTorch's where it is installed, and assert_close."""
import pytest

import kael as k

SETTINGS = [
    ('SGD', dict(lr=0.1)), ('SGD', dict(lr=0.1, momentum=0.9, weight_decay=0.01)),
    ('SGD', dict(lr=0.1, momentum=0.9, nesterov=True)),
    ('SGD', dict(lr=0.1, momentum=0.5, dampening=0.3, maximize=True)),
    ('Adam', dict(lr=0.05, weight_decay=0.1)), ('AdamW', dict(lr=0.05)),
]


def train(module, name, options):
    w = module.tensor([[1., -2.], [0.5, 3.]], dtype=module.float64, requires_grad=True)
    b = module.tensor([0.5, -0.5], dtype=module.float64, requires_grad=True)
    x = module.tensor([[1., 2.], [3., -1.], [0., 1.]], dtype=module.float64)
    optimizer = getattr(module.optim, name)([w, b], **options)
    for _ in range(5):
        optimizer.zero_grad()
        loss = ((x @ w + b).tanh() ** 2).mean()
        loss.backward()
        optimizer.step()
    return w.tolist(), b.tolist()


@pytest.mark.parametrize('name, options', SETTINGS)
def test_parameters_follow_pytorchs(name, options, mode):
    torch = pytest.importorskip('torch')
    for mine, theirs in zip(train(k, name, options), train(torch, name, options)):
        k.testing.assert_close(k.tensor(mine, dtype=k.float64), k.tensor(theirs, dtype=k.float64),
                               rtol=1e-9, atol=1e-12)


def test_a_state_can_be_taken_over():
    w = k.ones(2, requires_grad=True)
    first = k.optim.SGD([w], lr=0.1, momentum=0.9)
    w.sum().backward()
    first.step()
    second = k.optim.SGD([w], lr=1.0)
    second.load_state_dict(first.state_dict())
    assert second.param_groups[0]['lr'] == 0.1
    assert second.state[w]['momentum_buffer'].tolist() == [1, 1]


@pytest.mark.parametrize('make, error', [
    (lambda: k.optim.SGD([]), ValueError), (lambda: k.optim.SGD([k.ones(1)], lr=-1), ValueError),
    (lambda: k.optim.SGD([1]), TypeError),
    (lambda: k.optim.SGD([k.ones(1, requires_grad=True) * 2]), ValueError),
    (lambda: k.optim.AdamW([k.ones(1)], betas=(1.0, 0.5)), ValueError),
])
def test_impossible_optimizers_are_errors(make, error):
    with pytest.raises(error):
        make()


def test_assert_close_sees_shape_dtype_and_values():
    x = k.tensor([1., 2., float('nan')])
    k.testing.assert_close(x, x.clone(), equal_nan=True)
    k.testing.assert_close([k.ones(2)], [k.ones(2) + 1e-7])
    for a, b in ((k.ones(2), k.ones(3)), (k.ones(2), k.ones(2).double()), (x, x),
                 (k.ones(2), k.ones(2) + 1e-3), (k.tensor([1]), k.tensor([2])), ([x], [])):
        with pytest.raises(AssertionError):
            k.testing.assert_close(a, b)


def test_allclose_and_equal():
    inf = float('inf')
    assert k.allclose(k.tensor([inf, 1.]), k.tensor([inf, 1. + 1e-7]))
    assert not k.allclose(k.tensor([inf]), k.tensor([-inf]))
    assert not k.allclose(k.tensor([1.]), k.tensor([inf]))
    assert k.equal(k.ones(2), k.ones(2)) and not k.equal(k.ones(2), k.ones(1))
    with pytest.raises(RuntimeError):
        k.allclose(k.ones(1), k.ones(1).double())
