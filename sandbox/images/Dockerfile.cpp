# The cpp sandbox image. Needs a Debian-like base; PACKAGES come on top of what every sandbox has.
ARG BASE=gcc:13-bookworm
FROM ${BASE}
ARG PACKAGES="cmake ninja-build pkg-config"
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates git procps ripgrep ${PACKAGES} \
    && rm -rf /var/lib/apt/lists/*
ENV LANG=C.UTF-8
CMD ["/bin/sh"]
