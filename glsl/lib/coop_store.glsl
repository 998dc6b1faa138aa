// What products on cooperative matrices end with, in main: a subgroup's matrices total are
// stored, those at the edges through the stage w_stage, which is free then, of units of UNIT bytes.
    bool inside = (group_x() + 1u) * ROWS <= rows && (gl_WorkGroupID.y + 1u) * TOKENS <= n;
    [[unroll]] for (uint i = 0u; i < MI; i++) [[unroll]] for (uint j = 0u; j < NI; j++) {
        [[unroll]] for (int e = 0; e < total[i][j].length(); e++) total[i][j][e] = tidy(total[i][j][e]);
        uint m = group_x() * ROWS + m0 + i * CM, t = gl_WorkGroupID.y * TOKENS + n0 + j * CM;
        if (inside) {
            coopMatStore(total[i][j], y, t * stride + row0 + m, stride, gl_CooperativeMatrixLayoutColumnMajor);
        } else { // the whole workgroup goes through the stage, which is free now
            uint cell = sg * (CM * CM * 4u / UNIT);
            coopMatStore(total[i][j], w_stage, cell, CM * 4u / UNIT, gl_CooperativeMatrixLayoutColumnMajor);
            barrier();
            for (uint e = gl_SubgroupInvocationID; e < CM * CM; e += SUBGROUP) {
                uint mm = m + e % CM, tt = t + e / CM;
                if (mm < rows && tt < n) y[tt * stride + row0 + mm] = uintBitsToFloat(w_stage[cell + e * 4u / UNIT][e % (UNIT / 4u)]);
            }
            barrier();
        }
    }
