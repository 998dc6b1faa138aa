// A quad for each instance, its corners from the index.
#version 450
#include "ui.glsl"

layout(location = 0) out vec2 at; // pixels from the quad's corner
layout(location = 1) flat out uint index;

void main() {
	Quad q = quads[gl_InstanceIndex];
	vec2 corner = vec2(gl_VertexIndex & 1, gl_VertexIndex >> 1);
	at = corner * q.rect.zw;
	index = gl_InstanceIndex;
	gl_Position = vec4((q.rect.xy + at) / size * 2.0 - 1.0, 0.0, 1.0);
}
