/* Loops of the emitted code, and walks over an index space with the coordinates kept. */
#include "codegen/llvm/emit.h"

void kl_ir_loop_guard(kl_emit *e, kl_ir_loop *loop, kl_ssa start, kl_ssa end) {
  loop->guard = LLVMGetInsertBlock(e->builder);
  loop->end = end;
  loop->enter = kl_emit_block(e, "enter");
  loop->body = kl_emit_block(e, "loop");
  loop->exit = kl_emit_block(e, "exit");
  kl_ssa some = LLVMBuildICmp(e->builder, LLVMIntSLT, start, end, "");
  LLVMBuildCondBr(e->builder, some, loop->enter, loop->exit);
  LLVMPositionBuilderAtEnd(e->builder, loop->enter);
}

void kl_ir_loop_enter(kl_emit *e, kl_ir_loop *loop, kl_ssa start) {
  /* What was emitted since may have made blocks of its own. */
  loop->enter = LLVMGetInsertBlock(e->builder);
  LLVMBuildBr(e->builder, loop->body);
  LLVMPositionBuilderAtEnd(e->builder, loop->body);
  loop->index = LLVMBuildPhi(e->builder, e->i64, "");
  LLVMAddIncoming(loop->index, &start, &loop->enter, 1);
}

void kl_ir_loop_close(kl_emit *e, kl_ir_loop *loop, kl_ssa next) {
  LLVMBasicBlockRef latch = LLVMGetInsertBlock(e->builder);
  LLVMAddIncoming(loop->index, &next, &latch, 1);
  kl_ssa more = LLVMBuildICmp(e->builder, LLVMIntSLT, next, loop->end, "");
  LLVMBuildCondBr(e->builder, more, loop->body, loop->exit);
  LLVMMoveBasicBlockAfter(loop->exit, latch);
  loop->enter = latch; /* from here on: where the exit is reached from besides the guard */
  LLVMPositionBuilderAtEnd(e->builder, loop->exit);
}

kl_ssa kl_ir_loop_carry(kl_emit *e, const kl_ir_loop *loop, kl_ssa init) {
  kl_ssa phi = LLVMBuildPhi(e->builder, LLVMTypeOf(init), "");
  LLVMBasicBlockRef from = loop->enter;
  LLVMAddIncoming(phi, &init, &from, 1);
  return phi;
}

kl_ssa kl_ir_loop_result(kl_emit *e, const kl_ir_loop *loop, kl_ssa phi, kl_ssa init, kl_ssa next) {
  LLVMBasicBlockRef guard = loop->guard, latch = loop->enter;
  LLVMAddIncoming(phi, &next, &latch, 1);
  kl_ssa result = LLVMBuildPhi(e->builder, LLVMTypeOf(init), "");
  LLVMAddIncoming(result, &init, &guard, 1);
  LLVMAddIncoming(result, &next, &latch, 1);
  return result;
}

/* The coordinates of `position`: the last dim fastest. The first needs no division. */
static void decompose(kl_emit *e, int first, int end, kl_ssa position, kl_ssa *coord) {
  for (int d = end - 1; d > first; d--) {
    kl_ssa extent = kl_emit_int(e, e->section->extents_at + (uint32_t)d);
    coord[d] = LLVMBuildURem(e->builder, position, extent, "");
    position = LLVMBuildUDiv(e->builder, position, extent, "");
  }
  if (end > first) coord[first] = position;
}

void kl_walk_open(kl_emit *e, kl_walk *walk, int first, int end, kl_ssa start, kl_ssa stop,
                  kl_ssa *coord) {
  walk->first = first;
  walk->end = end;
  walk->coord = coord;
  kl_ir_loop_guard(e, &walk->loop, start, stop);
  /* Past the guard no extent is 0, so the divisions are defined. */
  if (end - first > 1) decompose(e, first, end, start, walk->init);
  kl_ir_loop_enter(e, &walk->loop, start);
  if (end - first == 1) coord[first] = walk->loop.index;
  for (int d = first; end - first > 1 && d < end; d++)
    coord[d] = walk->phi[d] = kl_ir_loop_carry(e, &walk->loop, walk->init[d]);
}

void kl_walk_close(kl_emit *e, kl_walk *walk, kl_ssa step) {
  kl_ssa next[KL_MAX_RANK] = {0};
  kl_ssa carry = step;
  kl_ssa zero = kl_emit_const(e, 0);
  for (int d = walk->end - 1; walk->end - walk->first > 1 && d >= walk->first; d--) {
    next[d] = LLVMBuildAdd(e->builder, walk->phi[d], carry, "");
    if (d == walk->first) break;
    kl_ssa extent = kl_emit_int(e, e->section->extents_at + (uint32_t)d);
    kl_ssa wraps = LLVMBuildICmp(e->builder, LLVMIntEQ, next[d], extent, "");
    next[d] = LLVMBuildSelect(e->builder, wraps, zero, next[d], "");
    carry = LLVMBuildZExt(e->builder, wraps, e->i64, "");
  }
  kl_ssa index = LLVMBuildAdd(e->builder, walk->loop.index, step, "");
  kl_ir_loop_close(e, &walk->loop, index);
  LLVMBasicBlockRef latch = walk->loop.enter;
  for (int d = walk->first; walk->end - walk->first > 1 && d < walk->end; d++)
    LLVMAddIncoming(walk->phi[d], &next[d], &latch, 1);
}
