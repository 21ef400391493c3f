"""Optimizers, made of ordinary operators: PyTorch's arguments, state and formulas."""
from . import _C
from ._modes import enable_grad, no_grad

__all__ = ['Adam', 'AdamW', 'Optimizer', 'SGD']


class Optimizer:
    """What optimizers share: groups of parameters with options, and a state for each parameter."""

    def __init__(self, params, defaults):
        self.defaults = defaults
        self.state = {}
        self.param_groups = []
        params = [params] if isinstance(params, dict) else list(params)
        if not params:
            raise ValueError('optimizer got an empty parameter list')
        groups = params if isinstance(params[0], dict) else [{'params': params}]
        for group in groups:
            self.add_param_group(group)

    def add_param_group(self, group):
        """Adds parameters with options of their own."""
        group = {**self.defaults, **group}
        params = group['params']
        group['params'] = [params] if isinstance(params, _C.Tensor) else list(params)
        known = {id(p) for g in self.param_groups for p in g['params']}
        for param in group['params']:
            if not isinstance(param, _C.Tensor):
                raise TypeError(f'optimizer can only optimize Tensors, not {type(param)}')
            if not param.is_leaf:
                raise ValueError("can't optimize a non-leaf Tensor")
            if id(param) in known:
                raise ValueError('some parameters appear in more than one parameter group')
        self.param_groups.append(group)

    def zero_grad(self, set_to_none=True):
        """Takes the gradients away, or sets them to zero."""
        for group in self.param_groups:
            for param in group['params']:
                if set_to_none:
                    param.grad = None
                elif param.grad is not None:
                    param.grad.detach_()
                    param.grad.zero_()

    def step(self, closure=None):
        """Changes every parameter that has a gradient. A closure computes the loss anew first."""
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        with no_grad():
            for group in self.param_groups:
                for param in group['params']:
                    if param.grad is not None:
                        self._update(param, param.grad, self.state.setdefault(param, {}), group)
        return loss

    def state_dict(self):
        """Options and state, with parameters as numbers."""
        numbers = {}
        for group in self.param_groups:
            for param in group['params']:
                numbers.setdefault(param, len(numbers))
        groups = [{**group, 'params': [numbers[p] for p in group['params']]}
                  for group in self.param_groups]
        return {'state': {numbers[p]: dict(s) for p, s in self.state.items()},
                'param_groups': groups}

    def load_state_dict(self, state_dict):
        """Takes over what state_dict gave, of an optimizer with parameters of the same order."""
        params = [p for group in self.param_groups for p in group['params']]
        if [len(g['params']) for g in self.param_groups] != \
                [len(g['params']) for g in state_dict['param_groups']]:
            raise ValueError('the state is of parameter groups of other sizes')
        self.state = {params[i]: dict(s) for i, s in state_dict['state'].items()}
        for group, saved in zip(self.param_groups, state_dict['param_groups']):
            group.update({key: value for key, value in saved.items() if key != 'params'})


def _check(**values):
    for name, (value, valid) in values.items():
        if not valid:
            raise ValueError(f'Invalid {name}: {value}')


class SGD(Optimizer):
    """Stochastic gradient descent, with momentum."""

    def __init__(self, params, lr=1e-3, momentum=0, dampening=0, weight_decay=0, nesterov=False, *,
                 maximize=False):
        _check(**{'learning rate': (lr, lr >= 0), 'momentum value': (momentum, momentum >= 0),
                  'weight_decay value': (weight_decay, weight_decay >= 0)})
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError('Nesterov momentum requires a momentum and zero dampening')
        super().__init__(params, dict(lr=lr, momentum=momentum, dampening=dampening,
                                      weight_decay=weight_decay, nesterov=nesterov,
                                      maximize=maximize))

    def _update(self, param, grad, state, group):
        if group['maximize']:
            grad = -grad
        if group['weight_decay']:
            grad = grad.add(param, alpha=group['weight_decay'])
        if group['momentum']:
            buffer = state.get('momentum_buffer')
            if buffer is None:
                buffer = state['momentum_buffer'] = grad.detach().clone()
            else:
                buffer.mul_(group['momentum']).add_(grad, alpha=1 - group['dampening'])
            grad = grad.add(buffer, alpha=group['momentum']) if group['nesterov'] else buffer
        param.add_(grad, alpha=-group['lr'])


class Adam(Optimizer):
    """Adam (Kingma and Ba, 2015)."""

    _decoupled = False

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, *,
                 maximize=False):
        _check(**{'learning rate': (lr, lr >= 0), 'epsilon value': (eps, eps >= 0),
                  'beta parameter at index 0': (betas[0], 0 <= betas[0] < 1),
                  'beta parameter at index 1': (betas[1], 0 <= betas[1] < 1),
                  'weight_decay value': (weight_decay, weight_decay >= 0)})
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay,
                                      maximize=maximize))

    def _update(self, param, grad, state, group):
        if not state:
            state.update(step=0, exp_avg=_C.zeros_like(param), exp_avg_sq=_C.zeros_like(param))
        state['step'] += 1
        beta1, beta2 = group['betas']
        lr, decay = group['lr'], group['weight_decay']
        if group['maximize']:
            grad = -grad
        if decay and self._decoupled:
            param.mul_(1 - lr * decay)
        elif decay:
            grad = grad.add(param, alpha=decay)
        mean, square = state['exp_avg'], state['exp_avg_sq']
        mean.add_((grad - mean) * (1 - beta1))
        square.mul_(beta2).add_(grad * grad * (1 - beta2))
        correction1 = 1 - beta1 ** state['step']
        correction2 = 1 - beta2 ** state['step']
        scale = square.sqrt() / correction2 ** 0.5 + group['eps']
        param.add_(mean / scale * (-lr / correction1))


class AdamW(Adam):
    """Adam with the weight decay apart from the gradient (Loshchilov and Hutter, 2019)."""

    _decoupled = True

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2, *,
                 maximize=False):
        super().__init__(params, lr, betas, eps, weight_decay, maximize=maximize)
