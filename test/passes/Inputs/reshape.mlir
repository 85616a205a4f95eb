func.func @step(%x: tensor<?x16xf32>) -> tensor<?x2x8xf32> {
  %zero = arith.constant 0 : index
  %T = tensor.dim %x, %zero : tensor<?x16xf32>
  %a = gemma.l2norm %x {eps = 1.0e-6 : f64} : tensor<?x16xf32>
  %h = tensor.expand_shape %a [[0], [1, 2]] output_shape [%T, 2, 8] : tensor<?x16xf32> into tensor<?x2x8xf32>
  %b = gemma.rmsnorm_unit %h {eps = 1.0e-6 : f64} : tensor<?x2x8xf32>
  return %b : tensor<?x2x8xf32>
}
