# The java sandbox image. Needs a Debian-like base; PACKAGES come on top of what every sandbox has.
ARG BASE=maven:3-eclipse-temurin-21
FROM ${BASE}
ARG PACKAGES
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates git procps ripgrep ${PACKAGES} \
    && rm -rf /var/lib/apt/lists/*
ENV LANG=C.UTF-8
CMD ["/bin/sh"]
