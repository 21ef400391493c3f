// kael/kael.hpp: kael for C++17, header only, over the C API (link with libkael_jit).
//
//   kael::Tensor a = kael::zeros({2, 3});
//   kael::Tensor b = a;          // the same tensor: a copy of a handle copies no data
//   kael::Tensor t = a.T();      // a view: another tensor over the same storage
//   kael::Tensor c = a.clone();  // a copy
//   t[1][1] = 42;                // seen through a, b and t; c keeps its zeros
//
// A failing call throws kael::Error, leaks nothing and changes nothing (the strong guarantee).
#ifndef KAEL_KAEL_HPP
#define KAEL_KAEL_HPP

#include "kael/kael.h"

#include "kael/cxx/error.hpp"
#include "kael/cxx/types.hpp"
#include "kael/cxx/owner.hpp"
#include "kael/cxx/tensor.hpp"
#include "kael/cxx/functions.hpp"
#include "kael/cxx/factory.hpp"
#include "kael/cxx/autograd.hpp"
#include "kael/cxx/jit.hpp"

#endif
