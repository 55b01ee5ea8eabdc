; Definitions of Ruby.
(module name: (_) @name) @definition.module
(class name: (_) @name) @definition.class
(method name: (_) @name) @definition.method
(singleton_method name: (_) @name) @definition.class_method
(assignment left: (constant) @name) @definition.constant
(singleton_class (method name: (_) @name) @definition.class_method)
(singleton_class (body_statement (method name: (_) @name) @definition.class_method))
