// A rounded rectangle, or the coverage of a glyph.
#version 450
#include "ui.glsl"

layout(location = 0) in vec2 at;
layout(location = 1) flat in uint index;
layout(location = 0) out vec4 result;

void main() {
	Quad q = quads[index];
	vec4 color = unpackUnorm4x8(q.color);
	float alpha;
	if (q.radius < 0.0) {
		uvec2 p = q.glyph + uvec2(at);
		uint byte = p.y * atlasWidth + p.x;
		alpha = float(coverage[byte >> 2] >> ((byte & 3) * 8) & 0xff) / 255.0;
	} else {
		vec2 half_size = q.rect.zw * 0.5;
		vec2 d = abs(at - half_size) - half_size + q.radius;
		alpha = clamp(0.5 + q.radius - length(max(d, 0.0)) - min(max(d.x, d.y), 0.0), 0.0, 1.0);
	}
	result = vec4(color.rgb, color.a * alpha);
}
