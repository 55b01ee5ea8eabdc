; What C++ adds to C. Out-of-class members keep their qualification in @name.
(namespace_definition name: (_) @name) @definition.namespace
(class_specifier name: (_) @name body: (_)) @definition.class
(alias_declaration name: (type_identifier) @name) @definition.type
(concept_definition name: (identifier) @name) @definition.concept
(function_definition
  declarator: (function_declarator
    declarator: [(qualified_identifier) (field_identifier) (destructor_name) (operator_name)] @name)) @definition.function
(function_definition
  declarator: (pointer_declarator
    declarator: (function_declarator declarator: [(qualified_identifier) (field_identifier)] @name))) @definition.function
(function_definition
  declarator: (reference_declarator
    (function_declarator
      declarator: [(identifier) (qualified_identifier) (field_identifier) (operator_name)] @name))) @definition.function
(function_definition declarator: (operator_cast) @name) @definition.function
(field_declaration declarator: (function_declarator declarator: (field_identifier) @name)) @definition.method
(field_declaration
  declarator: (pointer_declarator
    declarator: (function_declarator declarator: (field_identifier) @name))) @definition.method
(field_declaration
  declarator: (reference_declarator
    (function_declarator declarator: [(field_identifier) (operator_name)] @name))) @definition.method
(field_declaration_list
  (declaration
    declarator: (function_declarator declarator: [(identifier) (destructor_name)] @name)) @definition.method)
