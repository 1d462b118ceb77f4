# Both commands in a container: docker build --tag calibkit . ; docker run --rm calibkit make test (or: make book).
# --build-arg TORCH_INDEX=cu126 takes torch with CUDA, for docker run --gpus all; the driver is that of the host.
FROM python:3.11-slim-bookworm

# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends git make \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 1000 reader \
    && install --directory --owner reader /calibkit /data

USER 1000
WORKDIR /calibkit
ENV CALIBKIT_DATA=/data PIP_NO_CACHE_DIR=1

# The environment, made again only when the package or its requirements change.
ARG TORCH_INDEX=cpu
COPY --chown=1000 Makefile pyproject.toml requirements.lock README.md ./
COPY --chown=1000 calibkit calibkit
RUN make install TORCH_INDEX="$TORCH_INDEX"

COPY --chown=1000 . .
CMD ["make", "help"]
