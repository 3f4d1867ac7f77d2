#!/usr/bin/env bash
# Builds Horovod for the TensorFlow of a virtual environment and installs it there: infra/horovod/build.sh .venv
# With HOROVOD_GPU_OPERATIONS=NCCL for GPUs, which needs CUDA and NCCL. The wheel is kept in .venv/horovod.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
venv=$(cd "$1" && pwd)
python=$venv/bin/python

refuse() {
  echo "error: horovod: $1; $2; $3" >&2
  exit 1
}
for program in g++ make git; do
  command -v "$program" >/dev/null || refuse "no $program" "it is compiled here" "install $program"
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

pip() { "$python" -m pip --quiet --disable-pip-version-check "$@"; }
pip download --no-deps --no-build-isolation --no-binary horovod --require-hashes -r "$here/requirements.txt" ||
  refuse "no source" "the package registry must answer" "see above"
pip install --no-deps --target tools cmake-*.whl
tar xzf horovod-*.tar.gz --one-top-level=source --strip-components=1
cd source
GIT_CEILING_DIRECTORIES=$work git apply "$here/tensorflow-2.21.patch"
# The version says for which TensorFlow it was built: it does not load with another one, and a run is refused early.
tensorflow=$("$python" -c 'from importlib.metadata import version; print(version("tensorflow"))')
sed -i "s/^\(__version__ = '[0-9.]*\)'/\1+tensorflow$tensorflow'/" horovod/__init__.py

export HOROVOD_WITH_TENSORFLOW=1 HOROVOD_WITH_GLOO=1
export HOROVOD_WITHOUT_MPI=1 HOROVOD_WITHOUT_PYTORCH=1 HOROVOD_WITHOUT_MXNET=1
export HOROVOD_CMAKE=$work/tools/cmake/data/bin/cmake
[ -n "${HOROVOD_GPU_OPERATIONS:-}" ] || unset HOROVOD_GPU_OPERATIONS
rm -rf "$venv/horovod"
PATH=$venv/bin:$PATH MAKEFLAGS=-j$(nproc) LDFLAGS=-s \
  pip wheel --no-build-isolation --no-deps --wheel-dir "$venv/horovod" .
pip install --no-deps --force-reinstall "$venv"/horovod/*.whl
cd "$venv"
"$python" -P -c 'import horovod.tensorflow as hvd; assert hvd.gloo_built()' 2>"$work/log" || {
  cat "$work/log" >&2
  refuse "the built wheel does not load" "it must fit TensorFlow $tensorflow" "report it with the lines above"
}
echo "built $(basename "$venv"/horovod/*.whl)"
