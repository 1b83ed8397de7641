"""Renders one frame with Genesis' rasterizer on the EGL device of `EGL_DEVICE_ID`, and checks that it shows the box."""

import os
import sys

import genesis as gs

gs.init(backend=gs.gpu)
scene = gs.Scene(show_viewer=False)
scene.add_entity(gs.morphs.Plane())
scene.add_entity(gs.morphs.Box(size=(0.5, 0.5, 0.5), pos=(0.0, 0.0, 0.25)))
camera = scene.add_camera(res=(64, 64), pos=(2.0, 0.0, 1.0), lookat=(0.0, 0.0, 0.25))
scene.build()
rgb = camera.render()[0]
print(f"EGL_DEVICE_ID={os.environ.get('EGL_DEVICE_ID')} contrast={rgb.max() - rgb.min()}", flush=True)
sys.exit(0 if rgb.max() > rgb.min() else 1)
