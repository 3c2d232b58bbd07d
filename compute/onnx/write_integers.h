#ifndef PARAMD_COMPUTE_ONNX_WRITE_INTEGERS_H_
#define PARAMD_COMPUTE_ONNX_WRITE_INTEGERS_H_

#include "compute/onnx/onnx_value.h"
#include "compute/onnx/write_layers.h"
#include "compute/quantized/products.h"
#include "compute/quantized/quantized_products.h"

namespace paramd {

// Writes a product of integers, with all that is computed in the same pass: of
// static ranges between QuantizeLinear and DequantizeLinear, and if integers
// follow, what it gives between them too; else by DynamicQuantizeLinear, whose
// range is that of the whole batch.
OnnxValue WriteProduct(const QuantizedProducts& products,
                       const FoundProduct& product, const OnnxPass& pass);

}  // namespace paramd

#endif  // PARAMD_COMPUTE_ONNX_WRITE_INTEGERS_H_
