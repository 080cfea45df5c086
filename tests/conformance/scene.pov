// SPDX-License-Identifier: BSD-2-Clause
// Glass, reflection, textures: every part of the renderer that a small picture can use.
#version 3.7;
global_settings { assumed_gamma 1.0 max_trace_level 8 }
camera { location <0, 2, -6> look_at <0, 0.6, 0> }
light_source { <4, 8, -5> color rgb 1 }
plane { y, 0 pigment { checker color rgb <0.9, 0.8, 0.6>, color rgb <0.2, 0.3, 0.5> } finish { reflection 0.1 } }
sphere { <-1, 1, 0>, 1 pigment { color rgbf <0.9, 1, 0.95, 0.9> } finish { phong 1 reflection 0.2 } interior { ior 1.5 } }
torus { 0.7, 0.25 rotate x * 60 translate <1.2, 0.9, 0.5> texture { pigment { marble turbulence 0.8 color_map { [0 rgb 1] [1 rgb <0.5, 0.1, 0.1>] } } finish { phong 0.6 } } }
isosurface { function { x*x + y*y*y*y + z*z - 0.3 + 0.05*sin(9*x)*sin(9*z) } contained_by { box { -1, 1 } } translate <0, 0.8, 2> pigment { color rgb <0.3, 0.8, 0.3> } }
fog { distance 30 color rgb 0.7 }
