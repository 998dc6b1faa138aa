package ref

import "github.com/ternvk/tern/runtime/graph"

// page is the number of positions of a cache page, and of an attention chunk.
const page = 64

// cacheF16 is the paged cache of one layer: pages of keys, then pages of values
// from word vBase on. Keys of a page: [kv head][dim/8][position][8 halves].
// Values: [kv head][position][dim].
type cacheF16 struct {
	words        []uint32
	vBase        int
	dim, kvHeads int
}

func (c cacheF16) key(pg, head, pos, d int) int {
	return ((pg*c.kvHeads+head)*(c.dim/8)+d/8)*page*4 + pos%page*4 + d%8/2
}

func (c cacheF16) value(pg, head, pos, d int) int {
	return c.vBase + ((pg*c.kvHeads+head)*page+pos%page)*(c.dim/2) + d/2
}

func half(words []uint32, at, d int) float32 { return F32(uint16(words[at] >> (d % 2 * 16))) }

// qkvRopeCacheF16: for every token and head of the product qkv (query heads,
// then key heads, then value heads, then what is not looked at):
//
//	q, k: u = (x * r) * weight as in rmsNorm over the head; then rope over
//	      pairs (i, i + rotated/2) of its first elements: a' = a*c - b*s,
//	      b' = a*s + b*c, with (c, s) at consts[rope + (pos*rotated/2 + i)*2]
//	q:    tidy(round13(u * q_scale)), in place
//	k, v: half words into the cache page batch[batch[tables + t] + pos/64];
//	      finite values beyond the halves are counted in batch[1]
//
// q_scale holds log2(e)/sqrt(dim), so that scores are exponents of 2.
//
//	spec  dim, kv heads, rotated
//	push  heads, stride, positions, tables (offsets in batch), v_base, q_norm,
//	      k_norm, rope (offsets in consts), inv_dim, eps, q_scale
//	0 io  qkv[n][stride]   1 out cache   2 io batch   3 in consts
//	domain: heads + 2 kv heads, n
func qkvRopeCacheF16(node *graph.Node, args [][]uint32) {
	c := cacheF16{args[1], int(node.Push[4]), int(node.Spec[0]), int(node.Spec[1])}
	qkvRopeCache(node, args, func(side, pg, head, pos int, row []float32) {
		for d := 0; d < c.dim; d += 2 {
			at := c.key(pg, head, pos, d)
			if side == values {
				at = c.value(pg, head, pos, d)
			}
			c.words[at] = pairF16(row[d], row[d+1], args[2])
		}
	})
}

// qkvRopeCache is what does not depend on how the cache stores a row.
func qkvRopeCache(node *graph.Node, args [][]uint32, store func(side, pg, head, pos int, row []float32)) {
	p := node.Push
	dim, kvHeads, rotated := int(node.Spec[0]), int(node.Spec[1]), int(node.Spec[2])
	heads, stride, batch := int(p[0]), int(p[1]), args[2]
	x, consts := Floats(args[0]), Floats(args[3])
	inv, eps, scale := fromBits(p[8]), fromBits(p[9]), fromBits(p[10])
	row := make([]float32, dim)
	for t := range int(node.Domain[1]) {
		pos := int(batch[int(p[2])+t])
		pg := int(batch[int(batch[int(p[3])+t])+pos/page])
		for slot := range heads + 2*kvHeads {
			u := x[t*stride+slot*dim:][:dim]
			copy(row, u)
			switch {
			case slot < heads:
				normRow(row, u, consts[p[5]:], inv, eps)
				ropeRow(row[:rotated], consts[int(p[7])+pos*rotated:])
				for i, v := range row {
					u[i] = Tidy(Round13(float32(v * scale)))
				}
			case slot < heads+kvHeads:
				normRow(row, u, consts[p[6]:], inv, eps)
				ropeRow(row[:rotated], consts[int(p[7])+pos*rotated:])
				store(keys, pg, slot-heads, pos%page, row)
			default:
				store(values, pg, slot-heads-kvHeads, pos%page, row)
			}
		}
	}
}

func ropeRow(row, table []float32) {
	h := len(row) / 2
	for i := range h {
		a, b, c, s := row[i], row[i+h], table[2*i], table[2*i+1]
		row[i] = float32(a*c) - float32(b*s)
		row[i+h] = float32(a*s) + float32(b*c)
	}
}

func pairF16(a, b float32, batch []uint32) uint32 {
	for _, v := range [2]float32{a, b} {
		if m := bits(v) & 0x7fff_ffff; m >= 0x477f_f000 && m < infBits {
			batch[1]++
		}
	}
	return uint32(F16(a)) | uint32(F16(b))<<16
}
