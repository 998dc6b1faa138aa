#version 450
#include "tern.glsl"
// Lower logits of recent tokens, a workgroup for each row: runtime/ref/penalise_f32.go
layout(local_size_x = LOCAL) in;
layout(binding = 0) buffer X { float x[]; };
layout(binding = 1) readonly buffer Batch { uint batch[]; };
layout(push_constant) uniform P { uint k, records; };

#include "draw.glsl"

void main() {
    uint t = group_x(), record = records + t * DRAW_WORDS;
    uint pairs = batch[record], count = batch[record + 1u];
    float repeat = batch_float(record + 2u), inverse = batch_float(record + 3u);
    float presence = batch_float(record + 4u), frequency = batch_float(record + 5u);
    for (uint i = gl_LocalInvocationIndex; i < count; i += LOCAL) {
        uint at = t * k + batch[pairs + 2u * i];
        float l = x[at];
        l = l > 0.0 ? mul(l, inverse) : mul(l, repeat);
        x[at] = tidy(sub(l, add(mul(float(batch[pairs + 2u * i + 1u]), frequency), presence)));
    }
}
