"""Gradients, hooks and modes, as Python's users see them."""
import pytest

import kael as k


def test_backward_adds_to_leaves(mode):
    x = k.tensor([1., 2.], requires_grad=True)
    (x * x).sum().backward()
    (x * 3).sum().backward()
    assert x.grad.tolist() == [5, 7]
    x.grad = None
    assert x.grad is None
    with pytest.raises(RuntimeError):
        k.ones(1).backward()


def test_grad_differentiates_twice(mode):
    x = k.tensor([2.], requires_grad=True)
    (g,) = k.autograd.grad(x ** 3, x, create_graph=True)
    assert g.item() == 12 and k.autograd.grad(g, x)[0].item() == 12
    y = k.ones(1, requires_grad=True)
    with pytest.raises(RuntimeError):
        k.autograd.grad((x * 2).sum(), [x, y])
    assert k.autograd.grad((x * 2).sum(), [x, y], allow_unused=True)[1] is None
    assert k.autograd.grad((x * 2).sum(), [x, y], materialize_grads=True)[1].item() == 0


def test_hooks_see_and_replace_gradients(mode):
    x = k.ones(2, requires_grad=True)
    seen = []
    handle = x.register_hook(lambda g: seen.append(g.tolist()))
    doubled = x.register_hook(lambda g: g * 2)
    (x * 3).sum().backward()
    assert seen == [[3, 3]] and x.grad.tolist() == [6, 6]
    handle.remove()
    doubled.remove()
    (x * 3).sum().backward()
    assert seen == [[3, 3]] and x.grad.tolist() == [9, 9]


def test_an_exception_of_a_hook_is_raised_by_backward(mode):
    x = k.ones(2, requires_grad=True)

    def fail(grad):
        raise KeyError('mine')
    x.register_hook(fail)
    with pytest.raises(KeyError, match='mine'):
        x.sum().backward()
    with pytest.raises(RuntimeError, match='broadcast|size|shape'):
        k.ones(2) + k.ones(3)


def test_gradient_modes_are_scopes_and_decorators():
    x = k.ones(1, requires_grad=True)

    @k.no_grad()
    def inside():
        return (x * 2).requires_grad

    @k.no_grad
    def bare():
        return (x * 2).requires_grad
    assert inside() is False and bare() is False and k.is_grad_enabled()
    with k.no_grad():
        with k.enable_grad():
            assert (x * 2).requires_grad
        assert not (x * 2).requires_grad
    with k.inference_mode():
        assert k.is_inference_mode_enabled() and not (x * 2).requires_grad
    with k.set_grad_enabled(False):
        assert not k.is_grad_enabled()
    assert k.is_grad_enabled()
    with pytest.raises(ZeroDivisionError), k.no_grad():
        1 / 0
    assert k.is_grad_enabled()


def test_a_function_that_makes_itself_leaf_detached_and_retained(mode):
    x = k.ones(2, requires_grad=True)
    y = x * 2
    assert not y.is_leaf and x.is_leaf and y.grad_fn.name() == 'MulBackward0' and x.grad_fn is None
    y.retain_grad()
    y.sum().backward()
    assert y.grad.tolist() == [1, 1] and y.retains_grad
    assert y.detach().is_leaf and not y.detach().requires_grad
    with pytest.raises(RuntimeError):
        k.arange(3).requires_grad_()


def test_a_changed_saved_tensor_is_an_error(mode):
    x = k.ones(2, requires_grad=True)
    y = x.exp()
    y.add_(1)
    with pytest.raises(RuntimeError, match='modified by an inplace operation'):
        y.sum().backward()


def test_losses_of_nn_functional(mode):
    x = k.tensor([[1., 2., 3.], [1., 0., 0.]], requires_grad=True)
    target = k.tensor([2, 0])
    loss = k.nn.functional.cross_entropy(x, target)
    by_hand = k.nn.functional.nll_loss(k.nn.functional.log_softmax(x, dim=1), target)
    assert loss.item() == by_hand.item()
    none = k.nn.functional.cross_entropy(x, target, reduction='none')
    assert none.shape == (2,)
    with pytest.raises(ValueError):
        k.nn.functional.cross_entropy(x, target, reduction='most')
