#!/usr/bin/env bash
# Builds the Dockerfile in FOLDER with buildah, which needs no Docker engine.
# If the base cannot be pulled, builds one from Debian's packages and npm's Node of the same version.
set -euo pipefail
usage='usage: build-image.sh FOLDER IMAGE'
folder=${1:?$usage} image=${2:?$usage}
base=$(sed -n 's/^ARG NODE_IMAGE=//p' "$folder/Dockerfile")
version=$(sed 's/.*node:\([0-9.]*\)-.*/\1/' <<<"$base")
stand_in=localhost/node-stand-in:$version
export BUILDAH_ISOLATION=chroot
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

is_here() { buildah images --quiet "$1" >/dev/null 2>&1; }

make_stand_in() {
  local container node
  node=node-linux-$(node -p process.arch)
  mmdebstrap --quiet --variant=essential --include=libstdc++6 bookworm "$work/root.tar"
  (mkdir "$work/node" && cd "$work/node" && npm init -y && npm install --ignore-scripts "$node@$version" npm@11) >/dev/null
  container=$(buildah from scratch)
  buildah add --quiet "$container" "$work/root.tar" / >/dev/null
  buildah copy --quiet "$container" "$work/node/node_modules/$node/bin/node" /usr/local/bin/node >/dev/null
  buildah copy --quiet "$container" "$work/node/node_modules/npm" /usr/local/lib/node_modules/npm >/dev/null
  buildah run "$container" -- ln -s ../lib/node_modules/npm/bin/npm-cli.js /usr/local/bin/npm
  buildah config --env PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$container"
  buildah commit --quiet --rm "$container" "$stand_in" >/dev/null
}

if ! is_here "$base"; then
  if is_here "$stand_in" || ! timeout 30 buildah pull --quiet "$base" >/dev/null 2>&1; then
    is_here "$stand_in" || make_stand_in
    base=$stand_in
  fi
fi

# Mounts the machine's certificates: behind a proxy with its own CA, `npm ci` in the build needs them.
certificates=/etc/ssl/certs/ca-certificates.crt
echo "cafile=$certificates" >"$work/npmrc"

# The documented command runs as it is, with what this machine needs besides. buildah allows a step 1,024 open files, too
# few for `npm ci` on a slow machine: allow as many as here.
buildah() {
  command buildah build --quiet --network host --pull-never --build-arg "NODE_IMAGE=$base" \
    --ulimit "nofile=$(ulimit -Hn)" \
    --volume "$certificates:$certificates:ro" --volume "$work/npmrc:/root/.npmrc:ro" "${@:2}"
}
cd "$folder"
documented=$(grep '^buildah build ' docs/operating.md)
eval "$(sed "s|latchkey:[^ ]* |$image |" <<<"$documented")"
