package main

// fault is a mistake to plant: a textual edit of one file, of which the old text must
// stand there exactly once.
type fault struct {
	name     string
	file     string // below the root of the project
	old, new string
	kernel   string   // that must be named
	args     []string // of tern conform, besides the usual ones
	strip    bool     // instead of an edit: take the NoContraction decorations off the words
}

const runtimeFile = "runtime/record.go" // its fault is no kernel's

var faults = []fault{
	{
		name: "wrong shift", file: "glsl/mul_mat_q2_0.comp", kernel: "mul_mat_q2_0_i8",
		old: "((swapped >> (2 * s)) & 0x00030003u) * x[s]",
		new: "((swapped >> (2 * s + 1)) & 0x00030003u) * x[s]",
	},
	{
		name: "swapped slice order", file: "glsl/lib/slices.glsl", kernel: "mul_mat_q4_0_i8__vec",
		old: "part[(i * TOKENS + t) * GROUP + r]);",
		new: "part[((min(LANES, slices - slice) - 1u - i) * TOKENS + t) * GROUP + r]);",
	},
	{
		name: "missing pipeline barrier", file: runtimeFile, kernel: "rms_norm_i8",
		old: "\treturn wait\n}",
		new: "\treturn false\n}",
	},
	{
		name: "missing workgroup barrier", file: "glsl/rms_norm.comp", kernel: "rms_norm_f32",
		old: "part[p] = add(part[p], part[p + h]);\n        barrier();",
		new: "part[p] = add(part[p], part[p + h]);",
	},
	{name: "contraction allowed", file: "glsl/rms_norm.comp", kernel: "rms_norm_f16", strip: true},
	{
		name: "off-by-one tail", file: "glsl/dequant_q2_0.comp", kernel: "dequant_q2_0",
		old: "if (row >= rows) return;",
		new: "if (row + 1u >= rows) return;",
	},
	{
		name: "scale of a neighbour block", file: "glsl/mul_mat_q2_0.comp", kernel: "mul_mat_q2_0_f32",
		old: "dw[r] = Q2_0_SCALE(at, nb, b);",
		new: "dw[r] = Q2_0_SCALE(at, nb, min(b + 1u, nb - 1u));",
	},
	{
		name: "stale KV cell", file: "glsl/qkv_rope_cache_f16.comp", kernel: "qkv_rope_cache_f16",
		old: "if (is_v) cache[v_base + value_word(page, head, pos, d)] = w;",
		new: "if (is_v) { if (pos % PAGE != PAGE - 1u) cache[v_base + value_word(page, head, pos, d)] = w; }",
	},
	{
		name: "unaligned offset", file: "glsl/rms_norm.comp", kernel: "rms_norm_i8",
		old: "consts[weight + e]",
		new: "consts[(weight & ~3u) + e]",
	},
	{
		name: "subgroup-size assumption", file: "glsl/kernels.txt", kernel: "silu_mul_i8",
		old: "silu_mul            LOCAL=64,ACT=2                            x=64 ",
		new: "silu_mul            LOCAL=64,ACT=2,SHUFFLE                    x=64 ",
	},
	{
		name: "denormal dependence", file: "glsl/lib/math.glsl", kernel: "add_check_f32",
		old: "return mag(x) < 0x21800000u ? 0.0 : x;",
		new: "return mag(x) < 0x00800000u ? 0.0 : x;",
	},
	{
		name: "one row past 65,535 workgroups", file: "glsl/lib/tern.glsl", kernel: "argmax_f32",
		old:  "return FIRST + gl_WorkGroupID.z * FOLD + gl_WorkGroupID.x;",
		new:  "return gl_WorkGroupID.x;",
		args: []string{"--mask", "workgroups=16"}, // stands for 65,535: rows 17 and on are folded
	},
}
