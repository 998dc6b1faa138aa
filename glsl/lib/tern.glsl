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

// Workgroups allowed on x; more are folded onto z by the runtime, and those that do
// not fill a layer are a dispatch of their own, from FIRST on.
layout(constant_id = 0) const uint FOLD = 65535u;
layout(constant_id = 31) const uint FIRST = 0u;

uint group_x() { return FIRST + gl_WorkGroupID.z * FOLD + gl_WorkGroupID.x; }

#include "math.glsl"
