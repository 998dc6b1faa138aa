// The record of a draw in the batch: runtime/ref/penalise_f32.go
const uint DRAW_WORDS = 14u;

float batch_float(uint i) { return uintBitsToFloat(batch[i]); }
