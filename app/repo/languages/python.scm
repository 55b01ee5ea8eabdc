; Definitions of Python. The node carries the kind, @name the name.
(class_definition name: (identifier) @name) @definition.class
(function_definition name: (identifier) @name) @definition.function
((module (expression_statement (assignment left: (identifier) @name) @definition.constant))
  (#match? @name "^[A-Z][A-Z0-9_]*$"))
((module (expression_statement (assignment left: (identifier) @name type: (_)) @definition.constant))
  (#match? @name "^[A-Z][A-Z0-9_]*$"))
(type_alias_statement left: (type (identifier) @name)) @definition.type
