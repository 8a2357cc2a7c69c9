"""Every tolerance of the tests, each with its reason. What is not here is compared exactly."""

from __future__ import annotations

# 8-bit bilinear resize against OpenCV, in 8-bit steps. OpenCV picks its code by CPU and build
# (plain, SIMD, vendor libraries), and those differ among themselves by a step here and there.
OPENCV_RESIZE_STEPS = 1

# The share of pixels that must equal OpenCV's exactly: the arithmetic is meant to be the same, so a
# difference is the exception that OPENCV_RESIZE_STEPS allows for, not the rule.
OPENCV_RESIZE_EXACT_SHARE = 0.999

# A preset against its library, in 8-bit steps and as the share of values that are equal: the same
# arithmetic, so that a difference is the exception that OPENCV_RESIZE_STEPS speaks of.
PRESET_STEPS = 1
PRESET_EXACT_SHARE = 0.999

# Antialiased 8-bit bilinear by Pillow 13 where it takes the rows before the columns: 8-bit rounding
# between the passes happens to other sums, and averages out but for the last step.
PILLOW_ROWS_FIRST_STEPS = 1

# CMYK files against OpenCV's reading of them, in 8-bit steps after resizing. Pillow's conversion,
# which is used, rounds ink * black / 255; OpenCV shifts by 8 instead of dividing by 255 and
# truncates, which makes up to 2; the rounding of the resize may add one.
CMYK_OPENCV_STEPS = 3

# YUV to RGB against OpenCV's, where chroma is flat (OpenCV repeats it, ours is interpolated), in
# 8-bit steps: factors of 16 fractional bits here and 20 there, products rounded once.
YUV_OPENCV_STEPS = 1

# Float resize (bilinear, bicubic, area) against the float64 definition and against the float
# resizes of OpenCV, Pillow and PyTorch, in 8-bit steps of the source (0 to 255).
# Positions are float32 as in PyTorch: at 1000 pixels half an ulp is 3e-5 of a pixel, which between
# neighbours that differ by 255 makes 0.008 along each axis; sums of float32 products add 1e-4.
FLOAT_RESIZE_STEPS = 0.02

# Normalised float32 from float pixels, relative: three float32 operations, half an ulp each (6e-8).
FLOAT_NORMALISE_RTOL = 3e-7

# Sigmoid and softmax in float32 against float64: libm's expf is good to about 1 ulp (6e-8), the
# sum of a softmax over some hundred classes and the division add a few more.
ACTIVATION_RTOL = 2e-6

# Shares of a classifier's response as texts of six decimals, against the network in this process:
# half of the last decimal on both sides, and float32 sums that depend on the size of the batch.
SHARE_TEXT = 2e-6

# Normalised boxes (0 to 1) scaled to pixels, relative to the side of the input: the scaling may
# come before or after cxcywh -> xyxy, each order with float32 roundings of its own.
NORMALISED_BOX_RTOL = 3e-7

# Boxes at anchors, relative to their greatest coordinate: products and sums in float32 (6e-8 each)
# of sizes that e^x brings to float32 once, up to 62 times the anchor's.
ANCHOR_BOX_RTOL = 5e-7

# Boxes mapped back to source pixels, in pixels, after a round trip source -> model -> source in
# float32 at coordinates up to some thousand pixels (ulp 2.4e-4).
ROUND_TRIP_PIXELS = 2e-3

# A direction, in radians, as a float32 angle up to 7 (ulp 4.8e-7) and went back.
ROTATED_ANGLE = 2e-6

# The documentation's bound of the PSNR of decode fast against exact, in dB, for pictures shrunk to
# 640x640: DCT scaling is another (better) low-pass than bilinear resizing without antialias. The
# lowest that was measured on photographs is 26.3 (a street scene of 1411x1411 with fine print,
# first halved and then resized again), the others give 35 to 55.
FAST_DECODE_PSNR_DB = 25.0

# 8-bit steps read back from normalised float32 values: what the division by std and its undoing
# lose, far below the half step that a wrong pixel would show.
NORMALISED_STEPS = 0.01

# Growth of the resident set when a header that claims gigabytes is refused, in MiB: allocator and
# exception overhead, far below the 12 GB (64250 x 64250) and 232 MB (9000 x 9000) claimed.
REFUSED_HEADER_MIB = 8

# Scores and boxes through the server against the same steps in Python. Preprocessing and
# postprocessing are equal bit for bit; the network between them runs in another batch size there,
# for which onnxruntime picks other kernels, whose float32 sums round in another order.
SERVED_SCORE = 1e-4
SERVED_BOX_PIXELS = 0.05
# SAHI computes in float64 what endcap computes in float32, from the same network's numbers.
SLICED_BOX_PIXELS = 1e-3

# Detections of a head against another package's reading of the same head. Both compute boxes in
# float32 from centre and size and map them back as (x - pad) / scale, with scales that differ where
# one is the rounded side's: some ulps at a thousand pixels (6e-5 each).
PEER_SCORE = 1e-6
PEER_BOX_PIXELS = 2e-3

# Keypoints, in pixels, and angles, in radians, against the package's reading of the same numbers:
# keypoints as boxes, angles not at all but for float32.
PEER_KEYPOINT_PIXELS = 1e-3
PEER_ANGLE = 1e-6

# A classifier's scores against the package's own run of the network on the same file: PyTorch and
# ONNX Runtime sum in different orders, and a resized pixel may differ by a step.
PEER_CLASS_SCORE = 1e-4

# The same for a detector of random weights: 5e-6 were seen. Images that were prepared by another
# recipe, with antialias or with a letterbox, move its scores by 1.3e-4 and more.
PEER_NETWORK_SCORE = 5e-5

# Images as processors of transformers prepare them, in 8-bit steps, and the share of equal values.
# They resize bytes by torchvision, whose weights are integers of other lengths than Pillow's, so
# that a step here and there is another: 0.3 % of the values at most were seen.
PROCESSOR_STEPS = 1
PROCESSOR_EXACT_SHARE = 0.995

# Boxes of such a detector, in pixels of a picture of about a thousand, from offsets that sums in
# another order move by some 1e-7 of the side: 1.3e-4 were seen. Another recipe of the images, such
# as antialias, moves them by tenths of a pixel and more.
PEER_NETWORK_BOX_PIXELS = 5e-3

# The server's responses against the plain OpenCV, NumPy and ONNX Runtime pipeline, in scores and in
# pixels of the source. Beside the roundings above, one in a thousand of OpenCV's pixels may be a
# step of 255 away (OPENCV_RESIZE_STEPS). Put into the tensors of the samples at random, that moves
# a score by up to 0.001 and an edge by up to 0.04 pixels; these are five times as much.
COMPARED_SCORE = 0.005
COMPARED_BOX_PIXELS = 0.2

# What serving may change in mAP: the same roundings, which move a detection across an IoU step or
# past another score now and then.
SERVED_MAP_DIFFERENCE = 0.002

# nvJPEG against libjpeg-turbo, in 8-bit steps of a pixel. Both inverse DCTs keep within one step of
# the exact one (IEEE 1180), so that a sample of Y, Cb or Cr differs by 2 at most; blue is
# Y + 1.772 Cb, which makes 5.5, and is rounded.
NVJPEG_STEPS = 6

# The exact IoU of rotated boxes against the oracle's: both in float64, then ours is rounded to
# float32, by 3e-8 below 1.
ROTATED_IOU = 1e-7

# Probabilistic IoUs against float64, as the square of 1 - IoU, which is 1 - exp(-distance): near 1
# the square root multiplies every error. A determinant in float32 (6e-8 a step) loses the square of
# the ratio of the sides, here 7 at most, and the distance with it.
PROBIOU_SQUARED_DISTANCE = 3e-6

# Exact IoUs against OpenCV's rotatedRectangleIntersection, which computes corners in float32 and
# joins points that are near each other: 5e-6 nearly always, 9e-4 now and then.
OPENCV_ROTATED_IOU = 1e-3

# Probabilistic IoUs against ultralytics' in PyTorch, which takes the same steps in float32: sines,
# cosines, exponentials and logarithms that differ by an ulp (6e-8), and what the determinants make
# of it. Also how far from all IoUs the thresholds are whose kept boxes are compared.
PEER_PROBIOU = 1e-5

# Masks against ultralytics' of the same prototypes, as IoU of masks of 500 pixels and more.
# It sums the prototypes in another order, so that a pixel whose logit is nearly 0 may turn; and in
# the source's pixels it interpolates twice where it first enlarges the prototypes, to cut the
# padding off at whole pixels. That moves an edge by a part of a pixel.
PEER_MASK_IOU = 0.99

# Pixels of a noisy photograph against those of its JPEG of quality 95, on average: quantisation
# alone moves them by 3.2, and a half of the colours' resolution by 5 and more.
JPEG_95_PIXELS = 4.0


# Growth of the resident set over 1,000 batches of a DALI pipeline, in MiB, after 100 to warm up:
# allocators keep what the largest batches needed, some tenths. One leaked tensor a batch, of the
# smallest size used (32 x 32 float32 of 3 channels), would be 12 MiB.
DALI_GROWTH_MIB = 4

# Pictures of flat colours after H.264 (yuv420p, CRF 23) or MPEG-4, in 8-bit steps: far from edges
# conversion and quantisation move them by 3 at most; edges of colour, at half the resolution, count
# in the mean alone.
VIDEO_FLAT = 6
VIDEO_MEAN = 3.0

# Frames of videos beside PyAV's own RGB, in 8-bit steps. At 4:4:4 both compute the same and round
# once. Where U and V have fewer samples FFmpeg repeats them and endcap interpolates, which differs
# at edges of colour, and in the mean over smooth pictures as far as a sample's distance goes.
VIDEO_444_STEPS = 1
VIDEO_CHROMA_MEAN = 2.5

# Planes of 10 bits beside their values divided by 4, in 8-bit steps: FFmpeg dithers the remainder.
VIDEO_10_BIT_STEPS = 1

# The share of equal pixels of class maps that PyTorch interpolates once. Its positions are float32
# and ours float64, and it adds four products in another order, so that a class changes where two
# logits differ by 1e-6.
PEER_PIXELS = 0.9999

# The same where ultralytics interpolates twice, from the logits to the input and from there to the
# source, which rounds the corners of the surface between logits; we interpolate once. An edge moves
# by a part of a pixel. Logits of the padding reach some pixels into its picture, and not into ours.
PEER_PIXELS_TWICE_RESIZED = 0.9985
