# Installs the library, its headers as <bevel/...>, and a package for find_package(bevel).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(bevel_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/bevel")
install(TARGETS bevel EXPORT bevel ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(EXPORT bevel NAMESPACE bevel:: FILE bevelTargets.cmake DESTINATION "${bevel_package_dir}")
install(DIRECTORY core ops nn DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/bevel"
        FILES_MATCHING PATTERN "*.h" PATTERN "*.cuh" PATTERN "*.inl")
install(FILES "${BEVEL_INCLUDE_DIR}/bevel/bevel.h" "${BEVEL_INCLUDE_DIR}/bevel/config.h"
        DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/bevel")

configure_package_config_file(cmake/bevelConfig.cmake.in "${CMAKE_CURRENT_BINARY_DIR}/bevelConfig.cmake"
                              INSTALL_DESTINATION "${bevel_package_dir}")
write_basic_package_version_file("${CMAKE_CURRENT_BINARY_DIR}/bevelConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/bevelConfig.cmake" "${CMAKE_CURRENT_BINARY_DIR}/bevelConfigVersion.cmake"
        DESTINATION "${bevel_package_dir}")
