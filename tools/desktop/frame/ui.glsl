// What the host writes: the coverage of glyphs, and quads in the order they are drawn.
struct Quad {
	vec4 rect;   // x, y, width, height in pixels
	uvec2 glyph; // its corner in the atlas
	uint color;  // R, G, B, A from the lowest byte
	float radius; // of corners; below 0: a glyph
};

layout(set = 0, binding = 0, std430) readonly buffer Atlas { uint coverage[]; };
layout(set = 0, binding = 1, std430) readonly buffer Quads { Quad quads[]; };
layout(push_constant) uniform Push {
	vec2 size;        // of the picture
	uint atlasWidth;  // in bytes
};
