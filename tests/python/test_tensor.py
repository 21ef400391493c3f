"""Tensors made of Python's data, their attributes, operators, indexing and text."""
import copy
import math
import pickle

import pytest

import kael as k


# --- Making ---------------------------------------------------------------------------------------

@pytest.mark.parametrize('data, dtype, shape', [
    (1, k.int64, ()), (1.5, k.float32, ()), (True, k.bool, ()), ([], k.float32, (0,)),
    ([[]], k.float32, (1, 0)), ([1, 2], k.int64, (2,)), ([1, 2.5], k.float32, (2,)),
    ([True, 2], k.int64, (2,)), ([[True], [False]], k.bool, (2, 1)), ((1, (2))[:1], k.int64, (1,)),
])
def test_dtype_and_shape_are_inferred_as_in_pytorch(data, dtype, shape):
    x = k.tensor(data)
    assert x.dtype is dtype and tuple(x.shape) == shape


@pytest.mark.parametrize('data, error', [
    ([[1], [1, 2]], ValueError), ([1, [2]], (ValueError, TypeError)), ('ab', TypeError),
    ([None], TypeError), ([1j], TypeError), (2**70, (RuntimeError, OverflowError)),
])
def test_data_that_is_no_array_is_an_error(data, error):
    with pytest.raises(error):
        k.tensor(data)


def test_a_value_outside_the_dtype_is_an_error():
    with pytest.raises(RuntimeError, match='overflow'):
        k.tensor([300], dtype=k.uint8)
    with pytest.raises(RuntimeError, match='overflow'):
        k.tensor([2**31], dtype=k.int32)


def test_tensor_copies_a_tensor():
    x = k.ones(2)
    y = k.tensor(x)
    y.zero_()
    assert x.tolist() == [1, 1]


@pytest.mark.parametrize('make', [k.zeros, k.ones, k.empty, k.rand, k.randn])
def test_sizes_are_several_integers_or_one_sequence(make):
    assert tuple(make(2, 3).shape) == tuple(make((2, 3)).shape) == tuple(make([2, 3]).shape) == (2, 3)
    assert tuple(make(()).shape) == ()
    assert make(2, dtype=k.float64).dtype is k.float64
    assert make(2, requires_grad=True).requires_grad


def test_arange_has_the_dtype_of_its_numbers():
    assert k.arange(3).dtype is k.int64 and k.arange(3.).dtype is k.float32
    assert k.arange(1, 7, 2).tolist() == [1, 3, 5]
    assert k.arange(end=3).tolist() == [0, 1, 2]


def test_the_same_seed_gives_the_same_numbers(mode):
    k.manual_seed(5)
    a = k.rand(7).tolist()
    k.manual_seed(5)
    assert k.rand(7).tolist() == a


# --- Attributes -----------------------------------------------------------------------------------

def test_one_object_stands_for_one_tensor():
    x = k.ones(2, requires_grad=True)
    (x * x).sum().backward()
    assert x.grad is x.grad
    assert x.to(k.float32) is x and x.contiguous() is x
    assert x.is_same(x) and not x.is_same(x.detach()) and x.shares_storage(x.detach())


def test_layout_is_that_of_the_view():
    x = k.arange(12).reshape(3, 4).t()[1:]
    assert x.shape == (3, 3) and x.stride() == (1, 4) and x.storage_offset() == 1
    assert x.size(0) == 3 and x.size(-1) == 3 and x.stride(1) == 4
    assert x.dim() == x.ndim == 2 and x.numel() == 9 and not x.is_contiguous()
    assert x.element_size() == 8 and x.nbytes == 72
    assert x.data_ptr() - x.untyped_storage().data_ptr() == 8
    with pytest.raises(IndexError):
        x.size(2)


def test_len_and_iteration_go_along_the_first_dim():
    x = k.arange(6).reshape(2, 3)
    assert len(x) == 2 and [row.tolist() for row in x] == [[0, 1, 2], [3, 4, 5]]
    with pytest.raises(TypeError):
        len(k.tensor(1))
    with pytest.raises(TypeError):
        iter(k.tensor(1))


def test_numbers_are_read_from_one_element_only():
    assert k.tensor([[2]]).item() == 2 and float(k.tensor(2)) == 2.0 and int(k.tensor(2.7)) == 2
    assert bool(k.tensor(0.0)) is False and [10, 20][k.tensor(1)] == 20
    with pytest.raises(RuntimeError):
        k.ones(2).item()
    with pytest.raises(RuntimeError, match='ambiguous'):
        bool(k.ones(2))
    with pytest.raises(TypeError):
        [1, 2][k.tensor(1.0)]


def test_tensors_are_keys_by_identity():
    x, y = k.ones(1), k.ones(1)
    assert {x: 1, y: 2}[x] == 1


# --- Operators ------------------------------------------------------------------------------------

def test_numbers_on_the_left_promote_as_on_the_right(mode):
    x = k.tensor([1, 2], dtype=k.int32)
    assert (2 - x).tolist() == [1, 0] and (2 - x).dtype is k.int32
    assert (2.5 - x).dtype is k.float32 and (2 / x).tolist() == [2.0, 1.0]
    y = k.tensor([0.1], dtype=k.float64)
    assert (1.1 - y).item() == 1.1 - 0.1 and (True + x).dtype is k.int32
    assert (1 < x).tolist() == [False, True] and (1 == x).tolist() == [True, False]


def test_in_place_operators_change_the_tensor_itself(mode):
    x = k.ones(2)
    y = x
    x += 1
    x *= k.tensor([2., 3.])
    x -= 1
    x /= 2
    assert y is x and y.tolist() == [1.5, 2.5] and x._version == 4


def test_other_objects_are_left_to_their_own_operators():
    class Other:
        def __radd__(self, left):
            return 'mine'
    assert k.ones(1) + Other() == 'mine'
    with pytest.raises(TypeError):
        k.ones(1) + 'a'
    assert (k.ones(1) == None) is False  # noqa: E711


def test_bool_tensors_have_logical_operators(mode):
    a, b = k.tensor([True, True, False]), k.tensor([True, False, False])
    assert (a & b).tolist() == [True, False, False] and (a | b).tolist() == [True, True, False]
    assert (a ^ b).tolist() == [False, True, False] and (~a).tolist() == [False, False, True]


def test_alpha_multiplies_the_second_operand(mode):
    x = k.tensor([1., 2.])
    assert k.add(x, x, alpha=2).tolist() == [3, 6] and x.sub(1, alpha=3).tolist() == [-2, -1]
    x.add_(x, alpha=2)
    assert x.tolist() == [3, 6]


def test_arguments_have_pytorchs_names_and_numpys():
    x = k.arange(6.).reshape(2, 3)
    assert k.sum(input=x, dim=1, keepdim=True).tolist() == [[3], [12]]
    assert x.sum(axis=0).tolist() == [3, 5, 7] and x.sum((0, 1)).item() == 15
    assert x.sum(dtype=k.float64).dtype is k.float64
    with pytest.raises(TypeError):
        x.sum(dims=1, nothing=2)
    with pytest.raises(TypeError):
        k.softmax(x)
    with pytest.raises(TypeError):
        x.sum(1, dim=1)


def test_errors_have_pytorchs_classes():
    x = k.ones(2, 3)
    with pytest.raises(RuntimeError):
        x + k.ones(4)
    with pytest.raises(IndexError):
        x.sum(5)
    with pytest.raises(IndexError):
        x[2]
    with pytest.raises(RuntimeError):
        x.view(4)
    with pytest.raises(RuntimeError):
        k.zeros(2**62)
    with pytest.raises(TypeError):
        x.matmul(3)


# --- Indexing -------------------------------------------------------------------------------------

def test_basic_indices_are_views(mode):
    x = k.arange(24).reshape(2, 3, 4)
    assert x[1, ..., 0].tolist() == [12, 16, 20] and x[:, None].shape == (2, 1, 3, 4)
    assert x[..., 1:3].shape == (2, 3, 2) and x[-1, -1, -1].item() == 23
    assert x[k.tensor(1)].shares_storage(x) and x[...].shares_storage(x) and x[...] is not x
    x[0, :, ::2] = -1
    assert x[0].tolist() == [[-1, 1, -1, 3], [-1, 5, -1, 7], [-1, 9, -1, 11]]
    x[1] = k.arange(4).reshape(1, 1, 4)
    assert x[1].tolist() == [[0, 1, 2, 3]] * 3


@pytest.mark.parametrize('key, error', [
    (3, IndexError), ((0, 0, 0, 0), IndexError), ((Ellipsis, Ellipsis), IndexError),
    (slice(None, None, -1), ValueError), (1.5, (IndexError, TypeError)), ('a', (IndexError, TypeError)),
])
def test_keys_that_do_not_fit_are_errors(key, error):
    with pytest.raises(error):
        k.zeros(2, 3, 4)[key]


def test_index_tensors_and_lists_copy(mode):
    x = k.arange(12).reshape(3, 4)
    assert x[[2, 0]].tolist() == [[8, 9, 10, 11], [0, 1, 2, 3]]
    assert x[k.tensor([[0, -1]])].shape == (1, 2, 4)
    assert x[[0, 1], [1, -1]].tolist() == [1, 7]
    assert x[:, [1, 1]].tolist() == [[1, 1], [5, 5], [9, 9]]
    assert k.arange(24).reshape(2, 3, 4)[[0, 1], :, [1, 2]].tolist() == [[1, 5, 9], [14, 18, 22]]
    assert not x[[0]].shares_storage(x)
    with pytest.raises(IndexError):
        x[[3]]
    with pytest.raises(IndexError):
        x[[0, 1], [0, 4]]
    with pytest.raises(IndexError):
        x[k.tensor([1.])]


def test_a_mask_takes_a_number(mode):
    x = k.arange(6).reshape(2, 3)
    x[x > 3] = 0
    assert x.tolist() == [[0, 1, 2], [3, 0, 0]]
    x[k.tensor([True, False])] = 7
    assert x.tolist() == [[7, 7, 7], [3, 0, 0]]


# --- Text -----------------------------------------------------------------------------------------

@pytest.mark.parametrize('make, text', [
    (lambda: k.tensor([1., 2.5]), 'tensor([1.0000, 2.5000])'),
    (lambda: k.tensor([0., 100.]), 'tensor([  0., 100.])'),
    (lambda: k.tensor([float('nan'), 1., -math.inf]), 'tensor([nan, 1., -inf])'),
    (lambda: k.zeros(2, 0), 'tensor([], size=(2, 0))'),
    (lambda: k.tensor([], dtype=k.int64), 'tensor([], dtype=kael.int64)'),
    (lambda: k.tensor([1], dtype=k.int32), 'tensor([1], dtype=kael.int32)'),
    (lambda: k.ones(1, requires_grad=True), 'tensor([1.], requires_grad=True)'),
    (lambda: k.ones(1, requires_grad=True) * 2, 'tensor([2.], grad_fn=<MulBackward0>)'),
    (lambda: k.arange(2000), 'tensor([   0,    1,    2,  ..., 1997, 1998, 1999])'),
    (lambda: k.zeros(40, 40).long()[:, :30],
     'tensor([[0, 0, 0,  ..., 0, 0, 0],\n        [0, 0, 0,  ..., 0, 0, 0],\n'
     '        [0, 0, 0,  ..., 0, 0, 0],\n        ...,\n        [0, 0, 0,  ..., 0, 0, 0],\n'
     '        [0, 0, 0,  ..., 0, 0, 0],\n        [0, 0, 0,  ..., 0, 0, 0]])'),
    (lambda: k.arange(4).reshape(2, 1, 2), 'tensor([[[0, 1]],\n\n        [[2, 3]]])'),
])
def test_repr_is_pytorchs(make, text, mode):
    assert repr(make()) == text


def test_a_0d_tensor_formats_as_its_number():
    assert f'{k.tensor(2.5):.1f}' == '2.5' and str(k.float32) == 'kael.float32'


# --- Copies ---------------------------------------------------------------------------------------

def test_pickles_and_copies_keep_values_dtype_and_grad():
    x = k.arange(6.).reshape(2, 3).t()
    x = x.detach().clone().requires_grad_()
    for other in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x)):
        assert other.tolist() == x.tolist() and other.requires_grad and not other.shares_storage(x)
    assert copy.copy(x).shares_storage(x)
    assert pickle.loads(pickle.dumps(k.float64)) is k.float64
    with pytest.raises(RuntimeError):
        copy.deepcopy(x * 2)


# --- Functions with forms of their own ------------------------------------------------------------

def test_max_and_min_fold_all_or_a_dim_or_two_tensors(mode):
    x = k.tensor([[1, 5], [7, 2]])
    assert x.max().item() == 7 and k.min(x).item() == 1
    values, places = x.max(1)
    assert values.tolist() == [5, 7] and places.tolist() == [1, 0]
    assert x.min(dim=0, keepdim=True).indices.tolist() == [[0, 1]]
    assert k.max(x, k.tensor(3)).tolist() == [[3, 5], [7, 3]]
    with pytest.raises(IndexError):
        x.max(2)


def test_bounds_of_clamp_are_numbers_or_tensors(mode):
    x = k.tensor([-2., 0.5, 9.])
    assert x.clamp(min=0).tolist() == [0, 0.5, 9] and x.clamp(-1, 1).tolist() == [-1, 0.5, 1]
    assert x.clamp(max=k.tensor([-3., 1., 1.])).tolist() == [-3, 0.5, 1]
    assert x.clamp_(None, 1) is x and x.tolist() == [-2, 0.5, 1]
    with pytest.raises(TypeError):
        x.clamp(0, k.tensor(1.))


def test_division_rounds_as_asked(mode):
    a, b = k.tensor([-7, 7]), k.tensor([2, 2])
    assert k.div(a, b, rounding_mode='trunc').tolist() == [-3, 3]
    assert k.div(a, b, rounding_mode='floor').tolist() == [-4, 3]
    assert a.div(2.0, rounding_mode='trunc').tolist() == [-3, 3] and (a // 2).tolist() == [-4, 3]
    c = a.clone()
    assert c.div_(2, rounding_mode='trunc').tolist() == [-3, 3]
    with pytest.raises(RuntimeError):
        k.div(a, b, rounding_mode='up')


def test_variance_takes_its_correction_in_both_ways(mode):
    x = k.tensor([1., 2., 3., 6.])
    assert x.var().item() == pytest.approx(14 / 3) and x.var(unbiased=False).item() == 3.5
    assert k.std(x, 0, correction=0).item() == pytest.approx(3.5 ** 0.5)
    assert x.norm().item() == pytest.approx(50 ** 0.5) and x.norm(1).item() == 12
