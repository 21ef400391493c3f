#ifndef SCALED_HPP
#define SCALED_HPP

#include <kael/kael.hpp>

kael::Tensor scaled(const kael::Tensor &tensor, double factor);
// The tensor, by way of its impl.
kael::Tensor same(const kael::Tensor &tensor);

#endif
