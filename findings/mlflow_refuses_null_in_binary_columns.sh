#!/bin/sh
# MLflow 3.17.2, Python 3.11, Linux.
#
# Behaviour: a model whose signature has a column of type `binary` with `required=False` refuses null in JSON:
# "Failed to convert column". The same column takes null in a DataFrame, and columns of other types do in JSON.
# What one would guess: a column that is not required takes null, of every type and over every door. Cause: each value of
# a binary column is made bytes to decode its base64, null as well.
# What works instead: the type `string` with base64, decoded by the model.
#
# Exits with 1 if this changes.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check mlflow==3.17.2
cat > "$folder/model.py" <<'SCRIPT'
import sys

import mlflow
import pandas as pd
from mlflow.models import ModelSignature
from mlflow.types import ColSpec, Schema


class Model(mlflow.pyfunc.PythonModel):
    def predict(self, context, model_input, params=None):
        return [0 if value is None or value != value else len(value) for value in model_input["column"]]


def answered(kind):
    path = f"{sys.argv[1]}/{kind}"
    signature = ModelSignature(Schema([ColSpec(kind, "column", required=False)]))
    mlflow.pyfunc.save_model(path, python_model=Model(), signature=signature, pip_requirements=[])
    frame = pd.DataFrame({"column": [b"ab" if kind == "binary" else "ab", None]})
    return mlflow.pyfunc.load_model(path).predict(frame)


print(f"MLflow {mlflow.__version__}: DataFrames with a missing value: {[answered(kind) for kind in ('binary', 'string')]}")
SCRIPT
cd "$folder"
export MLFLOW_DISABLE_TELEMETRY=true
venv/bin/python model.py "$folder" 2> errors || { cat errors; exit 1; }
for kind in binary string; do
    for value in '"YWI="' null; do
        echo "{\"dataframe_records\": [{\"column\": $value}]}" > request.json
        answer=taken
        venv/bin/mlflow models predict --model-uri "$kind" --input-path request.json --env-manager local > answer 2>&1 ||
            answer=$(grep -o "Failed to convert column" answer | tail -n 1)
        echo "JSON, type $kind: $value is ${answer:-something else}"
        [ "$kind $value" = "binary null" ] && expected="Failed to convert column" || expected=taken
        [ "$answer" = "$expected" ] || { cat answer; echo "changed"; exit 1; }
    done
done
# Output seen:
#   MLflow 3.17.2: DataFrames with a missing value: [[2, 0], [2, 0]]
#   JSON, type binary: "YWI=" is taken
#   JSON, type binary: null is Failed to convert column
#   JSON, type string: "YWI=" is taken
#   JSON, type string: null is taken
