/* Tier 0's settings; its one entry, kl_block_prepare, is declared in ir/launch.h. */
#ifndef KL_CODEGEN_BLOCK_BLOCK_H
#define KL_CODEGEN_BLOCK_BLOCK_H

/* Chooses the level of instruction set for code prepared from now on: 2, 3 or 4 for x86-64-v2, v3,
 * v4. A level that the machine or the build lacks is lowered to the best one they have; before the
 * first call that is the machine's best. All levels give the same bits. Returns the level in use
 * (0 for the plain build of another architecture). */
int kl_block_set_level(int level);

#endif
