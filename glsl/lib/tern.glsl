// What every kernel starts with: the grid and the arithmetic.
#extension GL_EXT_control_flow_attributes : require
#ifdef SHUFFLE
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_KHR_shader_subgroup_shuffle_relative : require
#endif
#ifdef DOT
#extension GL_EXT_integer_dot_product : require
#endif

// Workgroups allowed on x; more are folded onto z by the runtime.
layout(constant_id = 0) const uint FOLD = 65535u;

uint group_x() { return gl_WorkGroupID.z * FOLD + gl_WorkGroupID.x; }

#include "math.glsl"
