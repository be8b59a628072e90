# One name server. The wheel is built in one stage and runs in another, which has neither pip's leavings nor sources.

FROM python:3.11.15-slim-bookworm AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /build
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY delivery delivery
COPY mailing mailing
COPY migrations migrations
COPY nameserver nameserver
COPY namegraph namegraph
COPY resolver resolver
COPY shadowtree shadowtree
COPY simulation simulation
COPY spark_graph_jobs spark_graph_jobs
COPY storage storage
RUN pip install --constraint constraints.txt setuptools
RUN pip wheel --no-deps --no-build-isolation --wheel-dir wheels .
# The wheel by its path: a package of this name elsewhere is never taken instead.
RUN python -m venv --without-pip /opt/shadowtree \
    && pip --python /opt/shadowtree/bin/python install --constraint constraints.txt "$(echo wheels/*.whl)[mail,metrics,postgres,traces]"

FROM python:3.11.15-slim-bookworm
COPY --from=build /opt/shadowtree /opt/shadowtree
ENV PATH=/opt/shadowtree/bin:$PATH SHADOWTREE_LISTEN=0.0.0.0:7400 SHADOWTREE_SERVER=127.0.0.1:7400
RUN useradd --system --no-create-home --shell /usr/sbin/nologin shadowtree
USER shadowtree
EXPOSE 7400
# `status` ends with 4 while the database cannot be written, so this tells of a database that fails, too.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 CMD ["shadowtree", "status", "--timeout", "3"]
ENTRYPOINT ["shadowtree"]
CMD ["serve"]
