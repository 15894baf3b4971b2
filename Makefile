# gkmeans: PGXS build.  `make && make install` is all there is to it;
# WITH_CUDA=0 leaves the GPU library out, WITH_CUDA=1 insists on it.

EXTENSION = gkmeans
EXTENSION_VERSION = 0.2.0
MODULE_big = gkmeans

# The folders of src/, and the folders below whose headers each of them may include.
FOLDERS = engine cpu cluster links progress job rows fit nodes sql model runs pictures
BELOW_cpu = engine
BELOW_cluster = engine
BELOW_links =
BELOW_progress =
BELOW_job = engine progress
BELOW_rows = engine progress job
BELOW_fit = engine progress job
BELOW_nodes = engine cluster links progress job rows
BELOW_sql = engine cluster links progress job rows fit nodes
BELOW_model = $(BELOW_sql) sql
BELOW_runs = $(BELOW_sql) sql model
BELOW_pictures = $(BELOW_sql) sql model

# The PostgreSQL side: everything that includes postgres.h.
OBJS = \
	$(addprefix src/progress/, $(addsuffix .o, live_fits progress)) \
	$(addprefix src/job/, $(addsuffix .o, choose_engine cuda_library engine_error gpu_slots \
		host_account host_memory job library settings)) \
	$(addprefix src/rows/, $(addsuffix .o, acting citus decode drain feature_hint feed feed_aggregate feed_pass \
		feed_receiver feeder id_parts lanes numeric_value own_function reading ring row_ids scalars share shift \
		snapshot_rows source source_aggregates source_changes source_choice source_columns source_functions source_keys \
		source_levels source_names source_origins source_plan source_query source_tables source_text subtransaction unusable)) \
	$(addprefix src/fit/, $(addsuffix .o, anomaly draw fit fitter history merge nearest pilot prepare \
		quantiles sample search seed)) \
	$(addprefix src/nodes/, $(addsuffix .o, citus_plan citus_sources cluster cluster_ids cluster_labels \
		cluster_rows column_types connections conninfo foreign_servers id_texts messages node_job node_list node_sources \
		partition_sources shared_labels used_columns)) \
	$(addprefix src/sql/, $(addsuffix .o, arguments changes_table checked_command fit_functions gpu_devices \
		label_columns label_lookup label_rows labelled_tables labels_on_nodes labels_relation labels_table merge_labels module node_functions output_table progress_view report sql_values table_name)) \
	$(addprefix src/model/, $(addsuffix .o, assign assignment axes clustering clusters compare contingency create_model \
		create_view defined_call definition deviations draft evaluate exported fitted gap import_model label_numbers label_pairs map \
		matching means model_cache model_row model_table model_writes moment predict_with quality running score_functions scorer \
		select_k selection silhouette sum summary table_texts table_views target versions views)) \
	$(addprefix src/runs/, $(addsuffix .o, alter_model drift drift_functions drift_view labels_before \
		owner portals refit refit_functions run temporary_objects)) \
	$(addprefix src/pictures/, $(addsuffix .o, clusters_picture convergence_picture drift_picture \
		elbow_picture history_picture json_rows markup page panel pictures plot profile_picture \
		sizes_picture subject svg))

# The engines: no postgres.h, flags of their own, so kept out of OBJS.
ENGINE_OBJS = $(addprefix src/cpu/, $(addsuffix .o, \
	assign centroids engine kernels kernels_amx kernels_avx2 kernels_avx512 kernels_generic \
	lloyd memory merges neighbours pool regions rows seed separation statistics stop sums)) \
	$(addprefix src/cluster/, $(addsuffix .o, \
	cluster_data cluster_engine cluster_farthest cluster_fit cluster_rows memory message node \
	node_answers node_requests rounds))

DATA_built = sql/$(EXTENSION)--$(EXTENSION_VERSION).sql sql/$(EXTENSION)--0.1.0--$(EXTENSION_VERSION).sql
PGFILEDESC = "gkmeans - k-means clustering of the rows of any query"

ENGINE_CFLAGS = -std=gnu11 -O3 -g -fPIC -fvisibility=hidden -pthread -Wall -Wextra -Wmissing-prototypes -Wno-psabi \
	-fno-math-errno -ffp-contract=off
PG_CFLAGS = -fvisibility=hidden -pthread
# What PostgreSQL exports from a module; before 16 it says nothing.  The bitcode for JIT is made with these
# flags alone, and no result may depend on fused operations.
PG_CPPFLAGS = -DGK_EXTENSION_VERSION='"$(EXTENSION_VERSION)"' '-DPGDLLEXPORT=__attribute__((visibility("default")))' -ffp-contract=off
ifdef CI
PG_CFLAGS += -Wall -Wextra -Wno-unused-parameter -Wno-sign-compare -Wno-missing-field-initializers -Werror
ENGINE_CFLAGS += -Werror
endif
SHLIB_LINK = $(ENGINE_OBJS) -pthread -lm -ldl
EXTRA_CLEAN = $(ENGINE_OBJS) src/links/links.o gkmeans_links$(DLSUFFIX) kernels/*.o kernels/cuda/*.o gkmeans_cuda$(DLSUFFIX) build $(DATA_built)

# `make installcheck`: on the server that PGHOST and PGPORT say, and on servers of its own (TAP).
# After `make install`, and not as root.
REGRESS = iris
REGRESS_OPTS = --inputdir=$(srcdir)/test/regress --load-extension=gkmeans
ISOLATION = $(patsubst $(srcdir)/test/specs/%.spec,%,$(wildcard $(srcdir)/test/specs/*.spec))
ISOLATION_OPTS = --inputdir=$(srcdir)/test
TAP_TESTS ?= 1
PROVE_TESTS = test/t/*.pl

PG_CONFIG ?= pg_config
PGXS := $(shell $(PG_CONFIG) --pgxs)
include $(PGXS)

# A server built with sanitizers gets engines built with them; -O3 would take them minutes a file.
SANITIZERS = $(if $(filter -fsanitize=%, $(CFLAGS)), $(filter -fsanitize=%, $(CFLAGS)) -O1)

# From 16 on, expected output is looked for in a folder of its own.
ifneq (15,$(MAJORVERSION))
REGRESS_OPTS += --expecteddir=$(srcdir)/test/regress
ISOLATION_OPTS += --expecteddir=$(srcdir)/test
endif

# The release for PGXN, of the commit that is checked out.
dist:
	git -C $(srcdir) archive --format=zip --prefix=$(EXTENSION)-$(EXTENSION_VERSION)/ \
		-o '$(CURDIR)/$(EXTENSION)-$(EXTENSION_VERSION).zip' HEAD
.PHONY: dist

# The tests in pgTAP, where that is installed, run before those of PGXS.
installcheck: installcheck-pgtap
installcheck-pgtap:
	cd $(srcdir) && PATH='$(bindir)':"$$PATH" test/pgtap.sh
.PHONY: installcheck-pgtap

$(shlib): $(ENGINE_OBJS)

# A header of a folder that is not below is not found.
define FOLDER
src/$(1)/%.o src/$(1)/%.bc: override CPPFLAGS := $(addprefix -I$(srcdir)/src/, $(1) $(BELOW_$(1))) $(CPPFLAGS)
endef
$(foreach folder, $(FOLDERS), $(eval $(call FOLDER,$(folder))))

# The loops that every number of a source passes.
src/rows/decode.o: override CFLAGS += -ftree-vectorize
src/rows/lanes.o: override CFLAGS += -O3
# Products of centroids that are to merge.
src/fit/merge.o: override CFLAGS += -O3
# The distances of a row that is scored.
src/fit/nearest.o: override CFLAGS += -O3 -Wno-psabi

include $(srcdir)/src/cpu/isa.mk

$(ENGINE_OBJS): src/%.o: $(srcdir)/src/%.c
	@mkdir -p $(@D)
	$(CC) $(ENGINE_CFLAGS) $(SANITIZERS) $(ISA_$(notdir $*)) $(filter -I$(srcdir)/src/%, $(CPPFLAGS)) -c $< -o $@

# PGXS as Debian builds it follows no header: any header rebuilds everything.
HEADERS_OF_SOURCES = $(wildcard $(srcdir)/src/*/*.h)
$(OBJS) $(OBJS:.o=.bc) $(ENGINE_OBJS): $(HEADERS_OF_SOURCES)
$(OBJS): | folders
folders:
	@mkdir -p $(addprefix src/, $(FOLDERS)) sql
.PHONY: folders

SCRIPTS = $(addprefix $(srcdir)/sql/, gkmeans.sql models.sql scoring.sql evaluate.sql runs.sql views.sql \
	pictures.sql progress.sql nodes.sql privileges.sql)
sql/$(EXTENSION)--$(EXTENSION_VERSION).sql: $(SCRIPTS)
	@mkdir -p $(@D)
	cat $(SCRIPTS) > $@

# 0.1.0 was never released: its update makes everything anew, between what keeps the views.
sql/$(EXTENSION)--0.1.0--$(EXTENSION_VERSION).sql: $(srcdir)/sql/update_begin.sql $(SCRIPTS) \
		$(srcdir)/sql/update_end.sql
	@mkdir -p $(@D)
	sed '/^\\echo Use "CREATE EXTENSION/d' $^ > $@

# The library of the connections to nodes, loaded on demand: it needs libpq.
links_library = gkmeans_links$(DLSUFFIX)

all: $(links_library)
install: install-links
uninstall: uninstall-links

src/links/links.o: $(srcdir)/src/links/links.c $(srcdir)/src/links/links.h
	@mkdir -p $(@D)
	$(CC) $(ENGINE_CFLAGS) -Wno-unused-parameter $(SANITIZERS) -I$(srcdir)/src/links -I$(shell $(PG_CONFIG) --includedir) \
		-c $< -o $@

$(links_library): src/links/links.o
	$(CC) -shared $(SANITIZERS) $(LDFLAGS) -o $@ $< -L$(shell $(PG_CONFIG) --libdir) -lpq

install-links: $(links_library)
	$(MKDIR_P) '$(DESTDIR)$(pkglibdir)'
	$(INSTALL_SHLIB) $< '$(DESTDIR)$(pkglibdir)/$<'

uninstall-links:
	rm -f '$(DESTDIR)$(pkglibdir)/$(links_library)'

.PHONY: install-links uninstall-links

# The GPU library, loaded on demand.  CUDA_HOME is where CUDA's compiler is, CUDA_RPATH where its
# libraries (NCCL, for several GPUs) are when the server runs, GENCODE the GPUs to build for.
CUDA_HOME ?= $(patsubst %/bin/nvcc,%,$(or $(shell command -v nvcc),$(wildcard /usr/local/cuda/bin/nvcc)))
NVCC = $(CUDA_HOME)/bin/nvcc
WITH_CUDA ?= $(if $(wildcard $(NVCC)),1,0)
CUDA_RPATH ?= $(CUDA_HOME)/lib64
GENCODE ?= -gencode=arch=compute_75,code=sm_75 -gencode=arch=compute_80,code=[sm_80,compute_80] \
	-gencode=arch=compute_90a,code=sm_90a
# For sources whose code is the same on all GPUs: tests that run on none build it once.
GENCODE_ALIKE ?= $(GENCODE)
CUDA_ALIKE = draws exact merges narrow_centroids neighbours passes rows sums
# The host side is C++, the device side CUDA: only the latter sees headers with device code.
CUDA_CXXFLAGS = -std=gnu++17 -O3 -fPIC -fvisibility=hidden -pthread -Wall -Wextra -ffp-contract=off \
	-I$(srcdir)/kernels -I$(srcdir)/src/engine -isystem $(CUDA_HOME)/include
NVCC_FLAGS = -std=c++17 -O3 -lineinfo $(GENCODE) \
	-I$(srcdir)/kernels/cuda -I$(srcdir)/kernels -I$(srcdir)/src/engine \
	-Xcompiler -fPIC,-fvisibility=hidden,-Wall,-Wextra,-ffp-contract=off
ifdef CI
CUDA_CXXFLAGS += -Werror
endif
cuda_library = gkmeans_cuda$(DLSUFFIX)
CUDA_HOST_OBJS = $(patsubst $(srcdir)/%.cpp,%.o,$(wildcard $(srcdir)/kernels/*.cpp))
CUDA_DEVICE_OBJS = $(patsubst $(srcdir)/%.cu,%.o,$(wildcard $(srcdir)/kernels/cuda/*.cu))
CUDA_OBJS = $(CUDA_HOST_OBJS) $(CUDA_DEVICE_OBJS)
CUDA_HEADERS = $(wildcard $(addprefix $(srcdir)/, kernels/*.h kernels/cuda/*.h kernels/cuda/*.cuh src/engine/*.h))

ifeq ($(WITH_CUDA),1)
all: $(cuda_library)
install: install-cuda
uninstall: uninstall-cuda
else
all: no-cuda
endif

$(CUDA_HOST_OBJS): kernels/%.o: $(srcdir)/kernels/%.cpp $(CUDA_HEADERS)
	@mkdir -p $(@D)
	$(CXX) $(CUDA_CXXFLAGS) -c $< -o $@

$(CUDA_DEVICE_OBJS): kernels/cuda/%.o: $(srcdir)/kernels/cuda/%.cu $(CUDA_HEADERS)
	@mkdir -p $(@D)
	$(NVCC) $(NVCC_FLAGS) -c $< -o $@

$(CUDA_ALIKE:%=kernels/cuda/%.o): GENCODE := $(GENCODE_ALIKE)

$(cuda_library): $(CUDA_OBJS) $(srcdir)/kernels/exports.map
	$(NVCC) -shared -cudart static -o $@ $(CUDA_OBJS) \
		-Xlinker --version-script=$(srcdir)/kernels/exports.map -Xlinker -rpath=$(CUDA_RPATH)

install-cuda: $(cuda_library)
	$(MKDIR_P) '$(DESTDIR)$(pkglibdir)'
	$(INSTALL_SHLIB) $< '$(DESTDIR)$(pkglibdir)/$<'

uninstall-cuda:
	rm -f '$(DESTDIR)$(pkglibdir)/$(cuda_library)'

no-cuda:
	@echo "gkmeans: built without the GPU library: no nvcc, or WITH_CUDA=0"

.PHONY: install-cuda uninstall-cuda no-cuda
