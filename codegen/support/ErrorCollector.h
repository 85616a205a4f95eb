// Diagnostics of one context as a message.
#pragma once

#include "mlir/IR/Diagnostics.h"

#include <string>

namespace gemma::codegen {

/// Keeps the first error that is reported while it lives.
class ErrorCollector {
public:
  explicit ErrorCollector(mlir::MLIRContext *context)
      : handler(context, [this](mlir::Diagnostic &diagnostic) {
          if (diagnostic.getSeverity() != mlir::DiagnosticSeverity::Error)
            return mlir::failure();
          if (message.empty())
            message = diagnostic.str();
          return mlir::success();
        }) {}
  std::string message;

private:
  mlir::ScopedDiagnosticHandler handler;
};

} // namespace gemma::codegen
