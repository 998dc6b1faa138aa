#version 450
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) buffer Data { uint data[]; };
layout(push_constant) uniform Push { uint factor, count; };
layout(constant_id = 3) const uint addend = 0;
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < count) data[i] = data[i] * factor + addend;
}
